import { sqlOutbox } from '@ackord/sql'
import { type FastifyError, type FastifyInstance, type FastifyServerOptions, fastify } from 'fastify'
import pg from 'pg'
import { createTables, openDatabase } from './database.ts'
import { messaging } from './messaging.ts'
import { orderRoutes } from './order-routes.ts'
import { Orders } from './orders.ts'

export interface Settings {
  readonly databaseUrl: string
  readonly brokerUrl: string
  readonly exchange: string
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
  // `onClose` hooks run in reverse order, so the pool is closed after all others are done.
  app.addHook('onClose', () => pool.end())

  const database = openDatabase(pool)
  await createTables(pool, database)
  const outbox = sqlOutbox(database, { source: '/orders', destination: exchange, logger: app.log })
  await app.register(messaging, { database, outbox, brokerUrl, exchange, queue })
  await app.register(orderRoutes, { orders: new Orders(database, outbox) })
  return app
}
