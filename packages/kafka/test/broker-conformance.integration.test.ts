import { type BrokerClaims, type BrokerWorld, ResultTable, testPublisher, testSource } from '@ackord/testkit/suites'
import { afterAll, describe, it } from 'vitest'
import { isReal } from './support/connection.ts'
import { openWorld } from './support/world.ts'

const results = new ResultTable()

afterAll(() => console.log(results.format()))

async function open(): Promise<BrokerWorld> {
  const world = await openWorld()
  return {
    // A group that lost a member without a leave request waits for its session to expire.
    patience: 40_000,
    largest: 500_000,
    async topic() {
      const topic = await world.topic()
      const group = world.group()
      return {
        destination: topic,
        source: ({ group: other, deadLetter, prefetch } = {}) =>
          world.source(topic, other === undefined ? group : `${group}-${other}`, { deadLetter, prefetch }),
      }
    },
    publisher: () => world.publisher(),
    [Symbol.asyncDispose]: () => world[Symbol.asyncDispose](),
  }
}

const claims: BrokerClaims = {
  order: 'perKey',
  delay: true,
  deliveryCount: true,
  groups: true,
  replay: true,
  names: true,
  origin: true,
}
const subject = { name: isReal ? 'Kafka' : 'Kafka (mock cluster)', open, claims, results }
// Concurrent, because nearly all of the time is spent in the mock cluster, which delays each member that joins a group.
const runner = { describe, it: it.concurrent }
testSource(runner, subject)
testPublisher(runner, subject)
