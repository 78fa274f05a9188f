import { type RawMessage, Router } from '@ackord/core'
import { Relay } from '@ackord/outbox'
import { declareTopology, rabbitmqPublisher, rabbitmqSource } from '@ackord/rabbitmq'
import { type Database, inboxMiddleware, type SqlOutbox, transactionMiddleware } from '@ackord/sql'
import { connect } from 'amqplib'
import type { FastifyPluginAsync } from 'fastify'
import type { Handle } from './database.ts'
import { invoiceHandler } from './invoices.ts'
import { orderPlaced } from './orders.ts'

export interface MessagingOptions {
  readonly database: Database<Handle>
  readonly outbox: SqlOutbox<Handle>
  readonly brokerUrl: string
  /** Where events go; others bind queues of their own to it. */
  readonly exchange: string
  /** Where this service gets the events from that it has to handle. */
  readonly queue: string
}

/** Carries the outbox to RabbitMQ, and handles what comes from there. It runs as long as the application does. */
export const messaging: FastifyPluginAsync<MessagingOptions> = async (app, { database, outbox, brokerUrl, exchange, queue }) => {
  const logger = app.log
  // RabbitMQ slows down connections that publish a lot, and acks would wait with them.
  const [publishing, consuming] = await Promise.all([connect(brokerUrl, { recovery: true }), connect(brokerUrl, { recovery: true })])
  await declareTopology(publishing, {
    exchanges: { [exchange]: { type: 'topic' } },
    queues: { [queue]: {} },
    bindings: [{ exchange, queue, routingKey: orderPlaced.type }],
  })

  const route = (destination: string, { type = '' }: RawMessage) => ({ exchange: destination, routingKey: type })
  const publisher = rabbitmqPublisher(publishing, { route, logger })
  const relay = new Relay(outbox, { publisher, logger })

  const source = rabbitmqSource(consuming, { queue, logger })
  const router = new Router({ concurrency: 8, logger })
    .use(transactionMiddleware(database, { logger }), inboxMiddleware(database, { consumer: 'invoices' }))
    .handle(invoiceHandler(database))
  let consumer: Promise<void> | undefined

  app.addHook('onReady', async () => {
    relay.start()
    consumer = router.run(source)
    consumer.catch((error: unknown) => logger.error({ err: error }, 'The consumer has ended.'))
  })

  // Requests are answered by now: what is being handled and published is finished, the rest stays in the outbox.
  app.addHook('onClose', async () => {
    await router.stop()
    await consumer?.catch(() => {})
    await relay.stop()
    await source[Symbol.asyncDispose]()
    await publisher[Symbol.asyncDispose]()
    await Promise.all([publishing.close(), consuming.close()])
  })
}
