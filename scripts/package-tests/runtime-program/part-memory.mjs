// @ts-check
// The suites on the in-memory store and broker: they show what depends on the runtime only.
import { Relay } from '@ackord/outbox'
import * as suites from '@ackord/testkit/suites'

/** @param {import('./checks.mjs').Checks} checks */
export async function register(checks) {
  const name = 'in memory'
  const { openMemoryOutboxWorld: open, memoryOutboxFeatures: features, openMemoryBrokerWorld, memoryBrokerClaims: claims } = suites
  suites.testOutboxStore(checks, { name, open, features, depth: 'once' })
  suites.testOrderedOutbox(checks, { name, open: suites.openOrderedMemoryOutboxWorld, depth: 'once' })
  suites.testRelay(checks, { name, openStore: open, createRelay: (store, setup) => new Relay(store, setup), insight: true, depth: 'once' })
  suites.testSource(checks, { name, open: openMemoryBrokerWorld, claims })
  suites.testPublisher(checks, { name, open: openMemoryBrokerWorld, claims })
  suites.testIdempotencyStore(checks, {
    name,
    open: suites.openMemoryIdempotencyWorld,
    features: suites.memoryIdempotencyFeatures,
    depth: 'once',
  })
  suites.testKeyRing(checks, { name, open: suites.openMemoryKeyRingWorld, features: suites.memoryKeyRingFeatures })
  suites.testPayloadCodec(checks, { name: 'encrypted', open: suites.openEncryptedWorld, features: suites.encryptedFeatures })
  suites.testObjectStore(checks, { name, open: suites.openMemoryObjectWorld, features: suites.memoryObjectFeatures })
  return async () => {}
}
