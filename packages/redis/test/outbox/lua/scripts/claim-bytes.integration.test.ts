import { testClaimBytes } from '../../../support/claim-bytes-suite.ts'
import { LuaWorld, lease, record } from '../lua-world.ts'

testClaimBytes({
  name: 'the Lua outbox',
  record: (id, data, destination) => record(id, { data, destination }),
  async open(settings, parts) {
    const world = await LuaWorld.open({ ...settings, outbox: { shards: parts } })
    return {
      store: world.store,
      append: async (records) => {
        for (const one of records) await world.store.enqueue([one])
      },
      expire: async (held) => {
        const released = await world.store.renew(held, 1)
        if (released.length !== held.length) throw new Error('expected a result for every claim')
        await world.advance(lease / 100)
      },
      command: (...words) => world.command(...words),
      [Symbol.asyncDispose]: () => world[Symbol.asyncDispose](),
    }
  },
})
