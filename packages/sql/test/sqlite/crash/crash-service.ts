import { commandHandler, defineEvent, Router } from '@ackord/core'
import { Relay } from '@ackord/outbox'
import { rabbitmqPublisher, rabbitmqSource } from '@ackord/rabbitmq'
import { runCrashable } from '@ackord/testkit/suites'
import { DatabaseSync } from '@photostructure/sqlite'
import { connect } from 'amqplib'
import { sqlOutbox, transactional } from '../../../src/index.ts'
import { fromSqlite } from '../../../src/sqlite/index.ts'
import { batchSize, consumer } from './crash-names.ts'

const { CRASH_SQLITE = '', CRASH_RABBITMQ = '', CRASH_INPUT = '', CRASH_OUTPUT = '' } = process.env
const orderPlaced = defineEvent<{ readonly id: string }>('order.placed')

/** Receives orders from a queue, stores them, and publishes their events to another queue. */
await runCrashable(process, async () => {
  const client = new DatabaseSync(CRASH_SQLITE)
  const database = fromSqlite(client, { lockTimeout: 0 })
  const input = await connect(CRASH_RABBITMQ, { recovery: true })
  const output = await connect(CRASH_RABBITMQ, { recovery: true })
  const publisher = rabbitmqPublisher(output)

  const router = new Router({ concurrency: 4 })
    .use(transactional(database, { inbox: { consumer }, outbox: { destination: CRASH_OUTPUT } }))
    .handle(
      commandHandler({ type: 'order.place', source: '/orders' }, async ({ id }: { readonly id: string }) => {
        database.executor().prepare('INSERT INTO orders (id) VALUES (?)').run(id)
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
      client.close()
    },
  }
})
