import { fastifyIdempotency } from '@ackord/http/idempotency'
import { type Database, sqlIdempotency } from '@ackord/sql'
import type { FastifyPluginAsync, FastifyRequest } from 'fastify'
import type { Handle } from './database.ts'
import { type Order, Orders } from './orders.ts'

const body = {
  type: 'object',
  required: ['id', 'product', 'quantity'],
  additionalProperties: false,
  properties: {
    id: { type: 'string', minLength: 1 },
    product: { type: 'string', minLength: 1 },
    quantity: { type: 'integer', minimum: 1, maximum: 2 ** 31 - 1 },
  },
}

/** `POST /orders` with an `Idempotency-Key`: a client that received no answer sends it again, and gets the answer to the first request. */
export const orderRoutes: FastifyPluginAsync<{ readonly database: Database<Handle> }> = async (app, { database }) => {
  const orders = new Orders(database, app.outbox)
  const idempotent = fastifyIdempotency(sqlIdempotency(database), {
    // A real service has users, and one of them never sees an answer to another.
    scope: (request: FastifyRequest) => [request.ip, 'POST /orders'],
    // Longer than a request takes: if a process dies in the middle of one, clients wait for so long.
    lease: 5000,
  })

  app.post<{ Body: Order }>(
    '/orders',
    { schema: { body } },
    idempotent(async (request, reply) => {
      await orders.place(request.body)
      return reply.code(201).send({ id: request.body.id })
    }),
  )
}
