import { type BrokerClaims, type BrokerWorld, ResultTable, testPublisher, testSource } from '@ackord/testkit/suites'
import { afterAll, describe, it } from 'vitest'
import type { StreamSourceOptions } from '../../src/streams/index.ts'
import { redisKinds } from '../support/redis-clients.ts'
import { openStreams } from './world.ts'

const results = new ResultTable()

afterAll(() => console.log(results.format()))

const tooLarge = 3 * 1024 * 1024

async function openBroker(kind: (typeof redisKinds)[number], order: StreamSourceOptions['order']): Promise<BrokerWorld> {
  const worlds = [await openStreams(kind)]
  const [first] = worlds
  return {
    tooLarge,
    async topic() {
      const world = await openStreams(kind)
      worlds.push(world)
      return {
        destination: world.stream,
        source: ({ group = 'billing', deadLetter, prefetch } = {}) => world.source({ group, deadLetter, prefetch, order, block: 100 }),
      }
    },
    publisher: () => (first as NonNullable<typeof first>).publisher({ maxSize: 2 * 1024 * 1024 }),
    async [Symbol.asyncDispose]() {
      for (const world of worlds) await world[Symbol.asyncDispose]()
    },
  }
}

// Redis creates a stream with its first entry, so a missing stream is never an error.
const claims: BrokerClaims = {
  settlesEach: true,
  delay: true,
  deliveryCount: true,
  groups: true,
  replay: true,
  types: true,
  names: true,
  origin: true,
  sizeLimit: true,
}
for (const kind of redisKinds.filter(({ cluster }) => !cluster)) {
  const competing = {
    name: `${kind.name}, competing`,
    open: () => openBroker(kind, 'none'),
    claims: { ...claims, competing: true },
    results,
  }
  const ordered = {
    name: `${kind.name}, in order`,
    open: () => openBroker(kind, 'perKey'),
    claims: { ...claims, order: 'perKey' } as const,
    results,
  }
  testSource({ describe, it }, competing)
  testSource({ describe, it }, ordered)
  testPublisher({ describe, it }, competing)
}
