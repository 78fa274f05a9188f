import { Relay } from '@ackord/outbox'
import { ResultTable, testOrderedOutbox } from '@ackord/testkit/suites'
import { afterAll, describe, it } from 'vitest'
import { depthOfFirstClient, depthOfOtherClients, isProof } from '../../../../../scripts/test-depth.mjs'
import { redisKinds, typicalKinds } from '../../support/redis-clients.ts'
import { luaOutboxWorld } from './conformance-world.ts'

const results = new ResultTable()
afterAll(() => console.log(results.format()))

for (const kind of isProof ? redisKinds : typicalKinds) {
  const open = luaOutboxWorld(kind, { order: 'perKey' })
  afterAll(() => open[Symbol.asyncDispose]())
  testOrderedOutbox(
    { describe, it },
    {
      name: `LuaOutbox, ${kind.name}`,
      open,
      createRelay: (store, setup) => new Relay(store, setup),
      // A claim of any store object leases the keys that it finds: nobody owns a key that has nothing in flight.
      partitions: false,
      depth: kind.name === 'ioredis 6' ? depthOfFirstClient : depthOfOtherClients,
      results,
    },
  )
}
