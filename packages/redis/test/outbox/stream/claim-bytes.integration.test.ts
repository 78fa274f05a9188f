import { testClaimBytes } from '../../support/claim-bytes-suite.ts'
import { record, StreamWorld } from './stream-world.ts'
import { TestTransaction } from './test-transaction.ts'

testClaimBytes({
  name: 'the stream outbox',
  record: (id, data, destination) => record(id, { data, destination }),
  async open(settings, parts) {
    const world = await StreamWorld.open({ ...settings })
    const tags = Array.from({ length: parts }, (_, part) => (part === 0 ? world.tag : `${world.tag}:${part}`))
    const store = world.another({ tags })
    let turn = 0
    return {
      store,
      async append(records) {
        for (const one of records) {
          turn += 1
          const transaction = new TestTransaction(`{${tags[turn % parts]}}:anchor`)
          await store.append(transaction, [one])
          await transaction.commit(world.port)
        }
      },
      expire: (held) => world.age(held),
      command: (...words) => world.command(...words),
      [Symbol.asyncDispose]: () => world[Symbol.asyncDispose](),
    }
  },
})
