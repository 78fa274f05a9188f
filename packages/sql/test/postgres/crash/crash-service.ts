import { type BatchMessage, batchHandler, commandHandler, defineEvent, Router } from '@ackord/core'
import { Relay } from '@ackord/outbox'
import { rabbitmqPublisher } from '@ackord/rabbitmq'
import { runCrashable } from '@ackord/testkit/suites'
import { connect } from 'amqplib'
import { type Database, sqlOutbox } from '../../../src/index.ts'
import { fromPg } from '../../../src/postgres/index.ts'
import { pg } from '../../support/pg.ts'
import type { TestHandle } from '../../support/world.ts'
import { crashMutants } from './crash-mutants.ts'
import { crashRules } from './crash-rules.ts'

interface Order {
  readonly id: string
}

const {
  CRASH_POSTGRES = '',
  CRASH_RABBITMQ = '',
  CRASH_SCHEMA = '',
  CRASH_INPUT = '',
  CRASH_OUTPUT = '',
  CRASH_MUTANT,
  CRASH_MODE,
  CRASH_BATCHES,
} = process.env
const rules = { ...crashRules, ...crashMutants.find(({ name }) => name === CRASH_MUTANT)?.rules }
const orderPlaced = defineEvent<Order>('order.placed')

/** Receives orders from a queue, stores them, and publishes their events to another queue. */
await runCrashable(process, async () => {
  const pool = new pg.Pool({ connectionString: CRASH_POSTGRES, options: `-c search_path=${CRASH_SCHEMA}` })
  // The service uses only the form of query() that TestHandle declares.
  const database = fromPg(pool, { mode: CRASH_MODE === 'log' ? 'log' : 'table' }) as unknown as Database<TestHandle>
  const input = await connect(CRASH_RABBITMQ, { recovery: true })
  const output = await connect(CRASH_RABBITMQ, { recovery: true })
  const publisher = rabbitmqPublisher(output)

  const place = async ({ id }: Order) => {
    await rules.save(database, id)
    return [orderPlaced({ id }, rules.eventAttributes())]
  }
  const accepted = { type: 'order.place', source: '/orders' }
  const handler =
    CRASH_BATCHES === undefined
      ? commandHandler<Order>(accepted, place)
      : batchHandler<Order>({ ...accepted, size: 4, wait: 10, batches: 2 }, async (messages) => {
          const placed = new Map<BatchMessage<Order>, readonly object[]>()
          for (const message of messages) placed.set(message, await place(message.data))
          return placed
        })
  const router = new Router({ ...rules.router, ...(CRASH_BATCHES !== undefined && { concurrency: 8 }) })
    .use(rules.middleware(database, CRASH_OUTPUT, publisher))
    .handle(handler)
  const relay = new Relay(rules.store(sqlOutbox(database)), { publisher: rules.publisher(publisher), ...rules.relay })
  relay.start()
  const running = router.run(rules.source(input, CRASH_INPUT))

  return {
    isIdle: () => router.health().inFlight + router.health().queued + relay.health().inFlight === 0,
    async stop() {
      await router.stop()
      await running
      await relay.stop()
      await publisher[Symbol.asyncDispose]()
      for (const connection of [input, output]) await connection.close()
      await pool.end()
    },
  }
})
