import type { FastifyPluginAsync } from 'fastify'
import type { Order, Orders } from './orders.ts'

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

/** `POST /orders`: 201, or 200 if the order was placed before. A client that received no answer may retry. */
export const orderRoutes: FastifyPluginAsync<{ readonly orders: Orders }> = async (app, { orders }) => {
  app.post<{ Body: Order }>('/orders', { schema: { body } }, async (request, reply) => {
    const isNew = await orders.place(request.body)
    return await reply.code(isNew ? 201 : 200).send({ id: request.body.id })
  })
}
