import { commandHandler, defineEvent, Router } from '@ackord/core'
import { Relay } from '@ackord/outbox'
import { rabbitmqPublisher, rabbitmqSource } from '@ackord/rabbitmq'
import { runCrashable } from '@ackord/testkit/suites'
import { connect } from 'amqplib'
import { createPool } from 'mysql2/promise'
import { sqlOutbox, transactional } from '../../../src/index.ts'
import { fromMysql2 } from '../../../src/mysql/index.ts'
import { batchSize, consumer } from './crash-rules.ts'

const { CRASH_MARIADB = '', CRASH_RABBITMQ = '', CRASH_SCHEMA = '', CRASH_INPUT = '', CRASH_OUTPUT = '' } = process.env
const orderPlaced = defineEvent<{ readonly id: string }>('order.placed')

/** Receives orders from a queue, stores them, and publishes their events to another queue. */
await runCrashable(process, async () => {
  const url = new URL(CRASH_MARIADB)
  url.pathname = CRASH_SCHEMA
  const pool = createPool(url.href)
  const database = fromMysql2(pool)
  const input = await connect(CRASH_RABBITMQ, { recovery: true })
  const output = await connect(CRASH_RABBITMQ, { recovery: true })
  const publisher = rabbitmqPublisher(output)

  const router = new Router({ concurrency: 4 })
    .use(transactional(database, { inbox: { consumer }, outbox: { destination: CRASH_OUTPUT } }))
    .handle(
      commandHandler({ type: 'order.place', source: '/orders' }, async ({ id }: { readonly id: string }) => {
        await database.executor().query('INSERT INTO orders (id) VALUES (?)', [id])
        return [orderPlaced({ id })]
      }),
    )
  const relay = new Relay(sqlOutbox(database), {
    publisher,
    batchSize,
    lease: 2000,
    publishTimeout: 1500,
    pollInterval: 20,
    maxPollInterval: 50,
  })
  relay.start()
  const running = router.run(rabbitmqSource(input, { queue: CRASH_INPUT, prefetch: 8 }))

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
