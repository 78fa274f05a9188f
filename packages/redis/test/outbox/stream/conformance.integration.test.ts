import { Relay } from '@ackord/outbox'
import { ResultTable, testOutboxStore, testRelay } from '@ackord/testkit/suites'
import { afterAll, describe, it } from 'vitest'
import { depthOfOtherClients, isProof } from '../../../../../scripts/test-depth.mjs'
import { type RedisKind, redisKinds, typicalKinds } from '../../support/redis-clients.ts'
import { streamOutboxWorld } from './outbox-world.ts'

const results = new ResultTable()
afterAll(() => console.log(results.format()))

const kinds = isProof ? redisKinds : typicalKinds

// No savepoints: a Redis transaction is a list of commands. No retention: published records are deleted immediately.
const features = { savepoints: false, delay: true, retain: false, codecs: true, insight: true }

for (const kind of kinds) {
  const open = streamOutboxWorld(kind)
  afterAll(() => open[Symbol.asyncDispose]())
  const name = `StreamOutbox, ${kind.name}`
  const depth = kind === kinds[0] ? 'whole' : depthOfOtherClients
  testOutboxStore({ describe, it }, { name, open, features, model: { runs: 10 }, depth, results })
  testRelay(
    { describe, it },
    { name, openStore: open, createRelay: (store, setup) => new Relay(store, setup), insight: true, depth, results },
  )
}

const indexed = streamOutboxWorld(kinds[0] as RedisKind, { messageIndex: true })
afterAll(() => indexed[Symbol.asyncDispose]())
testOutboxStore({ describe, it }, { name: 'StreamOutbox with an index', open: indexed, features, model: { runs: 10 }, results })
