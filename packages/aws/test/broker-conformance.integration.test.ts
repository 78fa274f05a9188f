import { type BrokerClaims, type BrokerWorld, ResultTable, testPublisher, testSource } from '@ackord/testkit/suites'
import { afterAll, describe, it } from 'vitest'
import type { SqsPublisherOptions } from '../src/index.ts'
import { openWorld } from './support/world.ts'

const results = new ResultTable()

afterAll(() => console.log(results.format()))

interface BrokerOptions extends SqsPublisherOptions {
  readonly fifo?: boolean
}

async function openBroker({ fifo = false, ...publishing }: BrokerOptions = {}): Promise<BrokerWorld> {
  const world = openWorld()
  return {
    // SQS accepts one mebibyte, and base64 is a third longer.
    largest: 780_000,
    tooLarge: 1_048_577,
    async topic() {
      const queue = await (fifo ? world.fifoQueue() : world.queue())
      return { destination: queue, source: ({ deadLetter, prefetch } = {}) => world.source(queue, { deadLetter, prefetch }) }
    },
    publisher: () => world.publisher(publishing),
    missing: () => world.name(),
    [Symbol.asyncDispose]: () => world[Symbol.asyncDispose](),
  }
}

const claims: BrokerClaims = {
  competing: true,
  settlesEach: true,
  delay: true,
  deliveryCount: true,
  names: true,
  origin: true,
  declared: true,
  sizeLimit: true,
}
const standard = { name: 'SQS', open: () => openBroker(), claims, results }
const fifo = {
  name: 'SQS, FIFO',
  open: () => openBroker({ fifo: true }),
  claims: { ...claims, order: 'perKey', dropsRepeats: true } as const,
  results,
}
// Delays are whole seconds, so that most of the time is waiting.
const runner = { describe: describe.concurrent, it }
for (const subject of [standard, fifo]) testSource(runner, subject)
for (const subject of [standard, fifo]) testPublisher(runner, subject)
