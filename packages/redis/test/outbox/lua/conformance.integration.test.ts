import { Relay } from '@ackord/outbox'
import { ResultTable, testOutboxStore, testRelay } from '@ackord/testkit/suites'
import { afterAll, describe, it } from 'vitest'
import { depthOfOtherClients, isProof } from '../../../../../scripts/test-depth.mjs'
import { redisKinds, typicalKinds } from '../../support/redis-clients.ts'
import { luaOutboxWorld } from './conformance-world.ts'

const results = new ResultTable()
afterAll(() => console.log(results.format()))

const kinds = isProof ? redisKinds : typicalKinds

for (const kind of kinds) {
  const open = luaOutboxWorld(kind)
  afterAll(() => open[Symbol.asyncDispose]())
  const name = `LuaOutbox, ${kind.name}`
  const features = { savepoints: true, delay: true, retain: true, codecs: true, insight: true }
  const depth = kind === kinds[0] ? 'whole' : depthOfOtherClients
  testOutboxStore({ describe, it }, { name, open, features, model: { runs: 10 }, depth, results })
  testRelay(
    { describe, it },
    { name, openStore: open, createRelay: (store, setup) => new Relay(store, setup), insight: true, depth, results },
  )
}
