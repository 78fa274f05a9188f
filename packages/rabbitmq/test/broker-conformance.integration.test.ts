import { randomUUID } from 'node:crypto'
import { type BrokerClaims, type BrokerWorld, ResultTable, testPublisher, testSource } from '@ackord/testkit/suites'
import { afterAll, describe, it } from 'vitest'
import { openWorld } from './support/world.ts'

const results = new ResultTable()

afterAll(() => console.log(results.format()))

/** A queue is one group; several groups require an exchange with several bound queues, which the user declares. */
async function openBroker(type: 'classic' | 'quorum'): Promise<BrokerWorld> {
  const world = await openWorld()
  return {
    async topic() {
      const queue = await world.queue({ type })
      return { destination: queue, source: ({ deadLetter, prefetch } = {}) => world.source(queue, { deadLetter, prefetch }) }
    },
    publisher: () => world.publisher(),
    missing: () => `ackord-test-${randomUUID()}`,
    [Symbol.asyncDispose]: () => world[Symbol.asyncDispose](),
  }
}

const claims: BrokerClaims = {
  competing: true,
  settlesEach: true,
  delay: true,
  deliveryCount: true,
  types: true,
  names: true,
  origin: true,
  declared: true,
}
const subjects = [
  { name: 'RabbitMQ, quorum queue', open: () => openBroker('quorum'), claims, results },
  // Classic queues do not count deliveries: the source does, within its process.
  { name: 'RabbitMQ, classic queue', open: () => openBroker('classic'), claims, results },
]
for (const subject of subjects) {
  testSource({ describe, it }, subject)
  testPublisher({ describe, it }, subject)
}
