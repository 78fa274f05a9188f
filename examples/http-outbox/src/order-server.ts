import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { json } from 'node:stream/consumers'
import { type Order, OutOfStockError } from './place-order.ts'

/** `POST /orders`: 201, or 200 if the order was placed before. A client that received no answer may retry. */
export function orderServer(place: (order: Order) => Promise<boolean>): Server {
  return createServer((request, response) => {
    answer(request, response, place).catch((error: unknown) => {
      if (error instanceof OutOfStockError) return send(response, 409, { error: error.message })
      console.error(error)
      send(response, 500, { error: 'The order could not be placed.' })
    })
  })
}

async function answer(request: IncomingMessage, response: ServerResponse, place: (order: Order) => Promise<boolean>): Promise<void> {
  if (request.method !== 'POST' || request.url !== '/orders') return send(response, 404, { error: 'There is POST /orders.' })
  const body: unknown = await json(request).catch(() => undefined)
  if (!isOrder(body)) return send(response, 400, { error: 'An order has an id, a product and a quantity of at least 1.' })
  const { id, product, quantity } = body
  send(response, (await place({ id, product, quantity })) ? 201 : 200, { id })
}

function isOrder(value: unknown): value is Order {
  if (typeof value !== 'object' || value === null) return false
  const { id, product, quantity } = value as Record<string, unknown>
  return typeof id === 'string' && id !== '' && typeof product === 'string' && Number.isSafeInteger(quantity) && Number(quantity) > 0
}

function send(response: ServerResponse, status: number, body: object): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
}
