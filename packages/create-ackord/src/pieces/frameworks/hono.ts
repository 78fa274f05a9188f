import { httpServer } from '../http-server.ts'
import type { BrokerRoute, ServedFrameworkPiece } from '../piece.ts'
import { httpSettings } from './http-settings.ts'
import { routesTest } from './routes-test.ts'

export function hono(route: BrokerRoute | undefined): ServedFrameworkPiece {
  const mount = route === undefined ? '' : `\napp.post('${route.path}', toHonoHandler(${route.handler}))`
  return {
    title: 'Hono',
    dependencies: ['hono', '@hono/node-server'],
    files: { 'src/http/order-routes.ts': routes, 'src/http/server.ts': httpServer, 'test/order-routes.test.ts': test },
    settings: httpSettings,
    imports: {
      '@hono/node-server': ['getRequestListener'],
      './http/order-routes.ts': ['createOrderRoutes'],
      './http/server.ts': ['listen'],
      './settings.ts': ['host', 'port'],
      ...(route === undefined ? {} : { '@ackord/http': ['toHonoHandler'] }),
    },
    options: [],
    listen: `const app = createOrderRoutes({ placeOrder, isHealthy: () => service.health().healthy })${mount}
service.start()
const server = await listen(getRequestListener(app.fetch), { host, port })
console.log(\`Listening on \${server.url}\`)`,
    close: 'await server.close() // answers open requests',
    hasRoutes: true,
  }
}

const routes = `import { Hono } from 'hono'
import { orderSchema } from '../application/messages.ts'
import type { Order } from '../domain/order.ts'

export interface OrderRoutesOptions {
  /** Resolves to \`false\` if the order was placed before. */
  readonly placeOrder: (order: Order) => Promise<boolean>
  readonly isHealthy: () => boolean
}

export function createOrderRoutes({ placeOrder, isHealthy }: OrderRoutesOptions): Hono {
  const app = new Hono()

  // A client that received no answer may send the order again: it is placed once.
  app.post('/orders', async (context) => {
    const { data: order, error } = orderSchema.safeParse(await context.req.json().catch(() => undefined))
    if (order === undefined) return context.json({ error: error.issues }, 400)
    const isNew = await placeOrder(order)
    return context.json({ id: order.id }, isNew ? 201 : 200)
  })

  app.get('/health', (context) => {
    const healthy = isHealthy()
    return context.json({ healthy }, healthy ? 200 : 503)
  })

  return app
}
`

const test = routesTest({
  imports: { '../src/http/order-routes.ts': ['createOrderRoutes'] },
  open: `const app = createOrderRoutes({ placeOrder, isHealthy: () => true })`,
  post: `const response = await app.request('/orders', { method: 'POST', body: JSON.stringify(body) })
    return response.status`,
})
