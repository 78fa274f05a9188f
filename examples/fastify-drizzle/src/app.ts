import type { RawMessage } from '@ackord/core'
import { ackord } from '@ackord/fastify'
import { declareTopology, rabbitmqPublisher, rabbitmqSource } from '@ackord/rabbitmq'
import { connect } from 'amqplib'
import { type FastifyError, type FastifyInstance, type FastifyServerOptions, fastify } from 'fastify'
import pg from 'pg'
import { createTables, openDatabase } from './database.ts'
import { invoiceHandler } from './invoices.ts'
import { orderRoutes } from './order-routes.ts'
import { orderPlaced } from './orders.ts'

export interface Settings {
  readonly databaseUrl: string
  readonly brokerUrl: string
  /** The exchange for events; other services bind their own queues to it. */
  readonly exchange: string
  /** The queue of the events that this service handles. */
  readonly queue: string
  readonly logger?: FastifyServerOptions['logger']
}

/** The returned application is not listening yet. `close()` closes everything it opened. */
export async function buildApp({ databaseUrl, brokerUrl, exchange, queue, logger = true }: Settings): Promise<FastifyInstance> {
  const app = fastify({ logger })
  // Drizzle's errors contain the statement and its values, which must not reach the client.
  app.setErrorHandler<FastifyError>((error, request, reply) => {
    if ((error.statusCode ?? 500) < 500) return reply.send(error)
    request.log.error({ err: error }, 'The request failed.')
    return reply.code(500).send({ error: 'The order could not be placed.' })
  })
  const pool = new pg.Pool({ connectionString: databaseUrl })
  pool.on('error', (error) => app.log.warn({ err: error }, 'An idle connection to PostgreSQL was lost.'))
  const database = openDatabase(pool)
  await createTables(pool, database)

  // Two connections: RabbitMQ slows down connections that publish a lot, and acks on the same connection would wait.
  const [publishing, consuming] = await Promise.all([connect(brokerUrl, { recovery: true }), connect(brokerUrl, { recovery: true })])
  await declareTopology(publishing, {
    exchanges: { [exchange]: { type: 'topic' } },
    queues: { [queue]: {} },
    bindings: [{ exchange, queue, routingKey: orderPlaced.type }],
  })
  const route = (destination: string, { type = '' }: RawMessage) => ({ exchange: destination, routingKey: type })

  await app.register(ackord, {
    database,
    source: rabbitmqSource(consuming, { queue }),
    handlers: [invoiceHandler(database)],
    consumer: 'invoices',
    concurrency: 8,
    publisher: rabbitmqPublisher(publishing, { route }),
    destination: exchange,
    eventSource: '/orders',
    health: '/health',
    onClose: () => Promise.all([publishing.close(), consuming.close(), pool.end()]),
  })
  await app.register(orderRoutes, { database })
  return app
}
