import { type BrokerClaims, type BrokerWorld, ResultTable, testPublisher } from '@ackord/testkit/suites'
import { afterAll, describe, it } from 'vitest'
import { eventBridgePublisher } from '../../src/index.ts'
import { startEventBridge } from '../support/event-bridge-server.ts'
import { openWorld } from '../support/world.ts'

const results = new ResultTable()

afterAll(() => console.log(results.format()))

/** Each event bus has one rule, whose target is a queue that is read. */
async function openBroker(): Promise<BrokerWorld> {
  const world = openWorld()
  const server = await startEventBridge()
  return {
    tooLarge: 1_000_001,
    async topic() {
      const queue = await world.queue()
      const QueueUrl = await world.urlOf(queue)
      server.addBus(queue, async (event) => void (await world.admin.sendMessage({ QueueUrl, MessageBody: event })))
      return { destination: queue, source: ({ deadLetter, prefetch } = {}) => world.source(queue, { deadLetter, prefetch }) }
    },
    publisher: () => eventBridgePublisher(server.client),
    missing: () => world.name(),
    async [Symbol.asyncDispose]() {
      await world[Symbol.asyncDispose]()
      await server[Symbol.asyncDispose]()
    },
  }
}

const claims: BrokerClaims = { settlesEach: true, names: true, declared: true, sizeLimit: true }
testPublisher({ describe: describe.concurrent, it }, { name: 'EventBridge (stand-in)', open: openBroker, claims, results })
