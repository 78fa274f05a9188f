// A server in a process of its own. The first order of the process waits for ever, in the middle of its transaction, unless it gets the argument `works`.
import { idempotentServers } from './idempotent-servers.ts'
import { type Order, shopKinds } from './idempotent-stores.ts'

const [framework = '', kind = '', name = '', mode = '', lease = ''] = process.argv.slice(2)
const shop = await shopKinds[kind]?.connect(name)
if (shop === undefined) throw new Error(`There is no store ${kind}.`)
const server = await idempotentServers[framework]?.(
  shop.store,
  async (order) => {
    // Sent by the test itself.
    await shop.place(order as Order)
    if (mode !== 'works') {
      console.log('written')
      await new Promise(() => setInterval(() => {}, 1000))
    }
    return { status: 201, content: { placed: order } }
  },
  { lease: Number(lease) },
)
console.log(server?.url)
