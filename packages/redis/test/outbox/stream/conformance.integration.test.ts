import { Relay } from '@ackord/outbox'
import { ResultTable, testOutboxStore, testRelay } from '@ackord/testkit/suites'
import { afterAll, describe, it } from 'vitest'
import { isProof } from '../../../../../scripts/test-depth.mjs'
import { redisKinds, typicalKinds } from '../../support/redis-clients.ts'
import { streamOutboxWorld } from './outbox-world.ts'

const results = new ResultTable()
afterAll(() => console.log(results.format()))

const kinds = isProof ? redisKinds : typicalKinds

for (const kind of kinds) {
  const open = streamOutboxWorld(kind)
  afterAll(() => open[Symbol.asyncDispose]())
  const name = `StreamOutbox, ${kind.name}`
  testOutboxStore(
    { describe, it },
    // No savepoints: a Redis transaction is a list of commands. No retention: published records are deleted immediately.
    { name, open, features: { savepoints: false, delay: true, retain: false, insight: true }, model: { runs: 10 }, results },
  )
  testRelay({ describe, it }, { name, openStore: open, createRelay: (store, setup) => new Relay(store, setup), insight: true, results })
}
