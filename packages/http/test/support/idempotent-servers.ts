import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import type { IdempotencyStore } from '@ackord/outbox'
import { deferred } from '@ackord/testkit'
import { serve as serveHono } from '@hono/node-server'
import express from 'express'
import fastify, { type FastifyRequest } from 'fastify'
import { type Context, Hono } from 'hono'
import {
  expressIdempotency,
  fastifyIdempotency,
  fetchIdempotency,
  honoIdempotency,
  type IdempotencyOptions,
} from '../../src/idempotency/index.ts'
import { toNodeHandler } from '../../src/index.ts'
import { portOf, serve } from './world.ts'

/** What a handler of any framework does: it may throw, and otherwise answers with JSON. */
export type TestWork = (order: unknown) => Promise<{ readonly status: number; readonly content: object }>

interface IdempotentServer extends AsyncDisposable {
  /** The address of `POST /orders`. */
  readonly url: string
}

/** The user is in a header, as if it had been authenticated. */
type Options = Omit<IdempotencyOptions<never>, 'scope' | 'fingerprint'>

type StartServer = <Transaction>(store: IdempotencyStore<Transaction>, work: TestWork, options?: Options) => Promise<IdempotentServer>

const headers = { 'x-handler': 'yes' }
const route = 'POST /orders'

export const idempotentServers: Readonly<Record<string, StartServer>> = {
  async 'node:http'(store, work, options) {
    const idempotent = fetchIdempotency(store, { ...options, scope: (request) => [request.headers.get('x-user') ?? '', route] })
    const handler = (request: Request) =>
      idempotent(request, async () => {
        const { status, content } = await work(await request.json())
        return Response.json(content, { status, headers })
      })
    // toNodeHandler() leaves errors to the handler.
    const answerErrors = (request: Request) => handler(request).catch(() => new Response('failed', { status: 500 }))
    const server = await serve(toNodeHandler(answerErrors))
    return { url: server.url.replace('/events', '/orders'), [Symbol.asyncDispose]: () => server[Symbol.asyncDispose]() }
  },

  async Express(store, work, options) {
    const idempotent = expressIdempotency(store, { ...options, scope: (request: express.Request) => [request.get('x-user') ?? '', route] })
    const app = express()
    app.set('env', 'test')
    app.use((_request, response, next) => {
      response.set('x-before', 'yes')
      next()
    })
    app.post(
      '/orders',
      express.json(),
      idempotent(async (request: express.Request, response: express.Response) => {
        const { status, content } = await work(request.body)
        response.status(status).set(headers).json(content)
      }),
    )
    const server = app.listen(0, '127.0.0.1')
    await once(server, 'listening')
    return {
      url: `http://127.0.0.1:${portOf(server)}/orders`,
      async [Symbol.asyncDispose]() {
        server.closeAllConnections()
        await new Promise((resolve) => server.close(resolve))
      },
    }
  },

  async Fastify(store, work, options) {
    const scope = (request: FastifyRequest) => [String(request.headers['x-user'] ?? ''), route]
    const idempotent = fastifyIdempotency(store, { ...options, scope })
    const app = fastify({ forceCloseConnections: true })
    app.addHook('onRequest', async (_request, reply) => {
      reply.header('x-before', 'yes')
    })
    app.post<{ Body: object }>(
      '/orders',
      idempotent(async (request, reply) => {
        const { status, content } = await work(request.body)
        reply.code(status).headers(headers)
        return content
      }),
    )
    await app.listen({ port: 0, host: '127.0.0.1' })
    return { url: `http://127.0.0.1:${portOf(app.server)}/orders`, [Symbol.asyncDispose]: () => app.close() }
  },

  async Hono(store, work, options) {
    const app = new Hono()
    app.onError((_error, context) => context.text('failed', 500))
    app.use(async (context, next) => {
      context.header('x-before', 'yes')
      await next()
    })
    const scope = (context: Context) => [context.req.header('x-user') ?? '', route]
    app.post('/orders', honoIdempotency(store, { ...options, scope }), async (context) => {
      const { status, content } = await work(await context.req.json())
      return context.json(content, status as 200, headers)
    })
    const started = deferred<AddressInfo>()
    const server = serveHono({ fetch: app.fetch, port: 0, hostname: '127.0.0.1' }, started.resolve)
    return {
      url: `http://127.0.0.1:${(await started.promise).port}/orders`,
      async [Symbol.asyncDispose]() {
        if ('closeAllConnections' in server) server.closeAllConnections()
        await new Promise((resolve) => server.close(resolve))
      },
    }
  },
}

export interface SentOrder {
  readonly key?: string
  readonly user?: string
  readonly signal?: AbortSignal
}

export interface ReceivedAnswer {
  readonly status: number
  readonly body: string
  readonly headers: Headers
  readonly isReplayed: boolean
}

export async function sendOrder(
  url: string,
  order: object,
  { key = 'k-1', user = 'ann', signal }: SentOrder = {},
): Promise<ReceivedAnswer> {
  const response = await fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'idempotency-key': key, 'x-user': user },
    body: JSON.stringify(order),
    ...(signal === undefined ? {} : { signal }),
  })
  const body = await response.text()
  return { status: response.status, body, headers: response.headers, isReplayed: response.headers.get('idempotency-replayed') === 'true' }
}
