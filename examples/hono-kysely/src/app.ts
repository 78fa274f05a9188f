import { Hono } from 'hono'
import { validator } from 'hono/validator'
import { type Order, OutOfStockError, type PlaceOrder } from './orders.ts'

/** The HTTP side. It calls a function and depends on neither database nor broker. */
export function createApp(placeOrder: PlaceOrder): Hono {
  const app = new Hono()

  const order = validator('json', (body, context) =>
    isOrder(body) ? body : context.json({ error: 'An order has an id, a product and a quantity of at least 1.' }, 400),
  )

  app.post('/orders', order, async (context) => {
    const { id, product, quantity } = context.req.valid('json')
    // A client that received no answer may retry: the same order is not placed twice.
    const isNew = await placeOrder({ id, product, quantity })
    return context.json({ id }, isNew ? 201 : 200)
  })

  app.onError((error, context) => {
    if (error instanceof OutOfStockError) return context.json({ error: error.message }, 409)
    console.error(error)
    return context.json({ error: 'The order could not be placed.' }, 500)
  })

  return app
}

function isOrder(value: unknown): value is Order {
  if (typeof value !== 'object' || value === null) return false
  const { id, product, quantity } = value as Record<string, unknown>
  return typeof id === 'string' && id !== '' && typeof product === 'string' && Number.isSafeInteger(quantity) && Number(quantity) > 0
}
