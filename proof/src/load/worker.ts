import { defineEvent, Router, silentLogger } from '@ackord/core'
import { rabbitmqPublisher, rabbitmqSource } from '@ackord/rabbitmq'
import { transactional } from '@ackord/sql'
import { fromPg } from '@ackord/sql/postgres'
import { connect } from 'amqplib'
import pg from 'pg'
import { failuresOf, maxDeliveries, postgresUrl, queues, rabbitmqUrl, schema } from './load-plan.ts'
import { runMember } from './member.ts'

const concurrency = 8
const orderPlaced = defineEvent<{ readonly index: number }>('order.placed')

/** A worker without a relay: takes commands, stores them with their events, acks. */
await runMember(async () => {
  const pool = new pg.Pool({ connectionString: postgresUrl, max: concurrency })
  const database = fromPg(pool, { schema, logger: silentLogger })
  const connection = await connect(rabbitmqUrl, { recovery: true })
  const publishing = await connect(rabbitmqUrl, { recovery: true })
  const publisher = rabbitmqPublisher(publishing, { logger: silentLogger })
  const router = new Router({ concurrency, maxDeliveries, redeliveryDelay: () => 50, source: '/orders', logger: silentLogger })
    .use(
      transactional(database, {
        inbox: { consumer: 'orders' },
        outbox: { destination: queues.events },
        transaction: { logger: silentLogger },
      }),
    )
    .handle({
      type: 'order.place',
      async handle({ data, deliveryCount = 1 }) {
        const { index } = data as { readonly index: number }
        await database.executor().query(`INSERT INTO ${schema}.orders (index) VALUES ($1)`, [index])
        // After the write, so that there is something to take back.
        if (deliveryCount <= failuresOf(index)) throw new Error(`The handler of ${index} fails.`)
        return [orderPlaced({ index })]
      },
    })
  const deadLetter = { publisher, destination: queues.dead }
  const running = router.run(rabbitmqSource(connection, { queue: queues.commands, deadLetter, logger: silentLogger }))
  return {
    failed: () => router.health().failed,
    async stop() {
      await router.stop()
      await running
      await publisher[Symbol.asyncDispose]()
      await Promise.all([connection.close(), publishing.close()])
      await pool.end()
    },
  }
})
