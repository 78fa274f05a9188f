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
  /** The exchange for events; other services bind their own queues to it. */
  readonly exchange: string
  /** The queue of the events that this service handles. */
  readonly queue: string
}

/** Publishes the outbox to RabbitMQ and handles events from there. It runs for as long as the application runs. */
export const messaging: FastifyPluginAsync<MessagingOptions> = async (app, { database, outbox, brokerUrl, exchange, queue }) => {
  const logger = app.log
  // Two connections: RabbitMQ slows down connections that publish a lot, and acks on the same connection would wait.
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

  // All requests are answered by now. The hook finishes handling and publishing; unpublished records stay in the outbox.
  app.addHook('onClose', async () => {
    await router.stop()
    await consumer?.catch(() => {})
    await relay.stop()
    await source[Symbol.asyncDispose]()
    await publisher[Symbol.asyncDispose]()
    await Promise.all([publishing.close(), consuming.close()])
  })
}
