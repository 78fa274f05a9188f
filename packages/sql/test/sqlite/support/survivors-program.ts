import { Session } from 'node:inspector/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { commandHandler, defineEvent, Message, Router, silentLogger } from '@ackord/core'
import { createSchema, transactional } from '../../../src/index.ts'
import { fromSqlite } from '../../../src/sqlite/index.ts'
import { sqliteKinds } from './sqlite-world.ts'

// Prints how many bytes per message survive minor garbage collections. Runs in a separate process, because other tests leave garbage and timers behind.

const placed = defineEvent<{ id: string }>('order.placed')

async function* orders(count: number): AsyncGenerator<Message<Uint8Array>> {
  for (let number = 0; number < count; number += 1) {
    const attributes = { id: crypto.randomUUID(), type: 'order.place', source: '/test', specversion: '1.0' }
    yield new Message(Buffer.from(`{"id":"${number}"}`), attributes, { acking: { ack() {}, nack() {}, reject() {} } })
  }
}

function minorCollection(): void {
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as (options: { type: 'minor' }) => void
  collect({ type: 'minor' })
}

/** The number of bytes allocated by `work` that survive minor garbage collections, including those that a major collection frees. */
async function bytesKept(work: () => Promise<void>): Promise<number> {
  const session = new Session()
  session.connect()
  try {
    await session.post('HeapProfiler.startSampling', { samplingInterval: 4096, includeObjectsCollectedByMajorGC: true })
    await work()
    // Objects of the last turns have not yet been through a minor collection, so they do not count as survivors.
    minorCollection()
    const { profile } = await session.post('HeapProfiler.stopSampling')
    const sizeOf = ({ selfSize, children }: typeof profile.head): number =>
      children.reduce((size, child) => size + sizeOf(child as typeof profile.head), selfSize)
    return sizeOf(profile.head)
  } finally {
    session.disconnect()
  }
}

const [kind] = sqliteKinds
if (kind === undefined) throw new Error('No SQLite client is available.')
await using world = await kind.open()
const database = fromSqlite(world.connect(), { logger: silentLogger })
await createSchema(database)
const handle = async (count: number) => {
  const router = new Router({ concurrency: 16, logger: silentLogger })
    .use(transactional(database, { inbox: { consumer: 'orders' }, outbox: { destination: 'events' } }))

    .handle(
      commandHandler<{ id: string }>({ type: 'order.place', source: '/orders' }, async ({ id }) => {
        // Moves the objects that are alive at this moment to the old generation, although they become garbage immediately afterwards.
        if (id === '500') for (let collection = 0; collection < 3; collection += 1) minorCollection()
        return [placed({ id })]
      }),
    )
  await router.run({ messages: () => orders(count) })
}
await handle(2000)
const count = 5000
console.log((await bytesKept(() => handle(count))) / count)
