import type { BrokerRoute, ServedFrameworkPiece } from '../piece.ts'
import { httpSettings } from './http-settings.ts'
import { routesTest } from './routes-test.ts'

export function fastify(route: BrokerRoute | undefined): ServedFrameworkPiece {
  const register = route === undefined ? '' : `\nawait app.register(toFastifyPlugin(${route.handler}, '${route.path}'))`
  return {
    title: 'Fastify',
    dependencies: ['fastify'],
    files: { 'src/http/order-routes.ts': routes, 'test/order-routes.test.ts': test },
    settings: httpSettings,
    imports: {
      fastify: ['fastify'],
      './http/order-routes.ts': ['orderRoutes'],
      './settings.ts': ['host', 'port'],
      ...(route === undefined ? {} : { '@ackord/http': ['toFastifyPlugin'] }),
    },
    open: 'const app = fastify({ logger: true })',
    options: ['logger: app.log,'],
    listen: `await app.register(orderRoutes, { placeOrder, isHealthy: () => service.health().healthy })${register}
service.start()
await app.listen({ host, port })`,
    close: 'await app.close() // answers open requests',
    hasRoutes: true,
  }
}

const routes = `import type { FastifyPluginAsync } from 'fastify'
import { orderSchema } from '../application/messages.ts'
import type { Order } from '../domain/order.ts'

export interface OrderRoutesOptions {
  /** Resolves to \`false\` if the order was placed before. */
  readonly placeOrder: (order: Order) => Promise<boolean>
  readonly isHealthy: () => boolean
}

export const orderRoutes: FastifyPluginAsync<OrderRoutesOptions> = async (app, { placeOrder, isHealthy }) => {
  // A client that received no answer may send the order again: it is placed once.
  app.post('/orders', async (request, reply) => {
    const { data: order, error } = orderSchema.safeParse(request.body)
    if (order === undefined) return reply.code(400).send({ error: error.issues })
    const isNew = await placeOrder(order)
    return reply.code(isNew ? 201 : 200).send({ id: order.id })
  })

  app.get('/health', async (_request, reply) => {
    const healthy = isHealthy()
    return reply.code(healthy ? 200 : 503).send({ healthy })
  })
}
`

const test = routesTest({
  imports: { fastify: ['fastify'], '../src/http/order-routes.ts': ['orderRoutes'] },
  open: `const app = fastify()
  await app.register(orderRoutes, { placeOrder, isHealthy: () => true })`,
  post: `const response = await app.inject({ method: 'POST', url: '/orders', body })
    return response.statusCode`,
})
