import { type BrokerClaims, type BrokerWorld, ResultTable, testPublisher } from '@ackord/testkit/suites'
import { afterAll, describe, it } from 'vitest'
import type { SnsPublisherOptions } from '../../src/index.ts'
import { openTopics, type TopicOptions } from '../support/topics.ts'

const results = new ResultTable()

afterAll(() => console.log(results.format()))

/** Each topic has a subscribed queue, which is read. */
async function openBroker(topics: TopicOptions, publishing: SnsPublisherOptions = {}): Promise<BrokerWorld> {
  const world = openTopics()
  return {
    // SNS accepts 256 KiB, and base64 is a third longer.
    largest: 190_000,
    tooLarge: 262_145,
    async topic() {
      const { topic, queue } = await world.subscribedTopic(topics)
      return { destination: topic, source: ({ deadLetter, prefetch } = {}) => world.queues.source(queue, { deadLetter, prefetch }) }
    },
    publisher: () => world.publisher(publishing),
    missing: () => world.missing(),
    [Symbol.asyncDispose]: () => world[Symbol.asyncDispose](),
  }
}

const claims: BrokerClaims = { settlesEach: true, names: true, declared: true, sizeLimit: true }
const subjects = [
  { name: 'SNS, raw delivery', open: () => openBroker({ raw: true }), claims, results },
  { name: 'SNS, envelopes', open: () => openBroker({ raw: false }), claims, results },
  { name: 'SNS, FIFO', open: () => openBroker({ raw: true, fifo: true }), claims: { ...claims, dropsRepeats: true }, results },
]
for (const subject of subjects) testPublisher({ describe: describe.concurrent, it }, subject)
