import { type BrokerClaims, type BrokerWorld, ResultTable, testPublisher, testSource } from '@ackord/testkit/suites'
import { afterAll, describe, it } from 'vitest'
import type { AmqpPublisherOptions, AmqpSourceOptions } from '../src/index.ts'
import { openWorld, serverVersion } from './support/world.ts'

const results = new ResultTable()

afterAll(() => console.log(results.format()))

interface BrokerOptions {
  readonly type?: 'classic' | 'quorum'
  readonly mode?: AmqpPublisherOptions['mode']
  readonly order?: AmqpSourceOptions['order']
  readonly delay?: AmqpSourceOptions['delay']
}

/** A queue is one group; several groups require an exchange with several bound queues, which the user declares. */
async function openBroker({ type = 'quorum', mode, order, delay }: BrokerOptions): Promise<BrokerWorld> {
  const world = await openWorld()
  return {
    tooLarge: 16_777_217,
    async topic() {
      // Order per key needs one consumer at a time.
      const queue = await world.queue({ type, arguments: order === undefined ? {} : { 'x-single-active-consumer': true } })
      return { destination: queue, source: ({ deadLetter, prefetch } = {}) => world.source(queue, { deadLetter, prefetch, order, delay }) }
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
  types: true,
  names: true,
  origin: true,
  declared: true,
  sizeLimit: true,
}
const competing: BrokerClaims = { ...claims, competing: true }
// Classic queues count failed deliveries from RabbitMQ 4.3 on, as far as the minor versions are known that were tested: 4.0 does not.
const { deliveryCount: _count, ...uncounted } = competing
const [major, minor] = await serverVersion()
const classicClaims = major > 4 || minor >= 3 ? competing : uncounted
const quorum = { name: 'AMQP 1.0, quorum queue', open: () => openBroker({}), claims: competing, results }
const classic = { name: 'AMQP 1.0, classic queue', open: () => openBroker({ type: 'classic' }), claims: classicClaims, results }
const delayed = { name: 'AMQP 1.0, delayed by the queue', open: () => openBroker({ delay: 'broker' }), claims: competing, results }
const ordered = {
  name: 'AMQP 1.0, in order',
  open: () => openBroker({ order: 'perKey' }),
  claims: { ...claims, order: 'perKey' } as const,
  results,
}
// JSON has no types for numbers that are not finite, or for bytes.
const { types: _types, ...structuredClaims } = competing
const structured = { name: 'AMQP 1.0, structured', open: () => openBroker({ mode: 'structured' }), claims: structuredClaims, results }
// Each scenario has queues and connections of its own, and spends most of its time waiting for the server.
const runner = { describe: describe.concurrent, it }
for (const subject of [quorum, classic, delayed, ordered, structured]) testSource(runner, subject)
for (const subject of [quorum, structured]) testPublisher(runner, subject)
