import { type BrokerClaims, type BrokerWorld, ResultTable, testPublisher, testSource } from '@ackord/testkit/suites'
import { afterAll, describe, it } from 'vitest'
import type { NatsPublisherOptions, NatsSourceOptions } from '../src/index.ts'
import { openWorld } from './support/world.ts'

const results = new ResultTable()

afterAll(() => console.log(results.format()))

interface BrokerOptions {
  readonly order?: NatsSourceOptions['order']
  readonly mode?: NatsPublisherOptions['mode']
}

async function openBroker({ order, mode }: BrokerOptions): Promise<BrokerWorld> {
  const world = await openWorld()
  return {
    // NATS accepts one megabyte including headers, and base64 is a third longer.
    largest: mode === 'structured' ? 700_000 : 1_000_000,
    tooLarge: 1_048_577,
    async topic() {
      const stream = await world.stream()
      return {
        destination: stream,
        source: ({ group = 'billing', deadLetter, prefetch } = {}) =>
          world.source(stream, { consumer: group, deadLetter, prefetch, order }),
      }
    },
    publisher: () => world.publisher({ mode }),
    missing: () => world.name(),
    [Symbol.asyncDispose]: () => world[Symbol.asyncDispose](),
  }
}

const claims: BrokerClaims = {
  settlesEach: true,
  delay: true,
  deliveryCount: true,
  groups: true,
  replay: true,
  names: true,
  origin: true,
  declared: true,
  sizeLimit: true,
  dropsRepeats: true,
}
const competing: BrokerClaims = { ...claims, competing: true }
const binary = { name: 'NATS', open: () => openBroker({}), claims: competing, results }
const structured = { name: 'NATS, structured', open: () => openBroker({ mode: 'structured' }), claims: competing, results }
const ordered = {
  name: 'NATS, in order',
  open: () => openBroker({ order: 'perKey' }),
  claims: { ...claims, order: 'perKey' } as const,
  results,
}
for (const subject of [binary, ordered, structured]) testSource({ describe, it }, subject)
for (const subject of [binary, structured]) testPublisher({ describe, it }, subject)
