import { MemoryIdempotencyStore, MemoryOutboxStore } from '@ackord/outbox'
import { recordingLogger } from '@ackord/testkit'
import { type Context, type Handler, Hono } from 'hono'
import { HTTPException } from 'hono/http-exception'
import { expect, it } from 'vitest'
import { honoIdempotency } from '../../src/idempotency/index.ts'

function open(handler: Handler, prepare: (app: Hono) => void = () => {}) {
  const store = new MemoryIdempotencyStore(new MemoryOutboxStore())
  const app = new Hono()
  prepare(app)
  app.use(honoIdempotency(store, { scope: (context: Context) => context.req.path, logger: recordingLogger() }))
  app.all('/orders', handler)
  const send = async (method = 'POST') => {
    const headers = { 'idempotency-key': 'k' }
    const response = await app.request('/orders', { method, headers, ...(method === 'POST' ? { body: '{"product":"lamp"}' } : {}) })
    return {
      status: response.status,
      body: await response.text(),
      headers: response.headers,
      isReplayed: response.headers.get('idempotency-replayed') === 'true',
    }
  }
  return send
}

it('finds a body that a middleware before it has read', async () => {
  const send = open(
    async (context) => context.json(await context.req.json(), 201),
    (app) =>
      app.use(async (context, next) => {
        await context.req.json()
        await next()
      }),
  )

  expect([await send(), await send()]).toMatchObject([
    { status: 201, body: '{"product":"lamp"}', isReplayed: false },
    { status: 201, body: '{"product":"lamp"}', isReplayed: true },
  ])
})

it('rolls back what a handler throws, also if its answer is one that would be stored', async () => {
  let fails = true
  const send = open((context) => {
    if (fails) throw new HTTPException(409, { message: 'out of stock' })
    return context.text('done')
  })
  expect(await send()).toMatchObject({ status: 409, body: 'out of stock' })
  fails = false

  expect(await send()).toMatchObject({ status: 200, body: 'done', isReplayed: false })
})

it('replays no cookies, and no headers of the middleware before it', async () => {
  let requests = 0
  const send = open(
    (context) => {
      context.header('x-own', '1')
      context.header('set-cookie', 'session=1', { append: true })
      return context.text('done')
    },
    (app) =>
      app.use(async (context, next) => {
        requests += 1
        context.header('x-request-id', String(requests))
        context.header('set-cookie', `seen=${requests}`, { append: true })
        await next()
        context.header('x-after', String(requests))
      }),
  )
  const shown = ({ headers }: Awaited<ReturnType<typeof send>>) => [
    headers.get('x-request-id'),
    headers.get('x-own'),
    headers.getSetCookie(),
    headers.get('x-after'),
  ]

  expect(shown(await send())).toEqual(['1', '1', ['seen=1', 'session=1'], '1'])
  expect(shown(await send())).toEqual(['2', '1', ['seen=2'], '2'])
})

it('handles other methods as if it were not there', async () => {
  const send = open((context) => context.text(context.req.method))

  expect([await send('GET'), await send('GET')]).toMatchObject([
    { status: 200, body: 'GET', isReplayed: false },
    { status: 200, body: 'GET', isReplayed: false },
  ])
})

it('hands errors of its own to the error handler', async () => {
  const store = new MemoryIdempotencyStore(new MemoryOutboxStore())
  const app = new Hono()
  const errors: Error[] = []
  app.onError((error, context) => {
    errors.push(error)
    return context.text('failed', 500)
  })
  app.post('/orders', honoIdempotency(store, { scope: () => '', logger: recordingLogger() }), (context) => context.text('done'))
  const response = await app.request('/orders', { method: 'POST', headers: { 'idempotency-key': 'k' } })

  expect([response.status, await response.text()]).toEqual([500, 'failed'])
  expect(errors).toMatchObject([{ code: 'ACKORD_INVALID_OPTION' }])
})
