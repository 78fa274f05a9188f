import { request as httpRequest } from 'node:http'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { currentContext } from '@ackord/core'
import { MemoryIdempotencyStore, MemoryOutboxStore } from '@ackord/outbox'
import { deferred, recordingLogger } from '@ackord/testkit'
import express from 'express'
import { describe, expect, it } from 'vitest'
import { type ExpressHandler, expressIdempotency, type IdempotencyOptions } from '../../src/idempotency/index.ts'
import { sendOrder } from '../support/idempotent-servers.ts'
import { serve } from '../support/world.ts'

type Handler = ExpressHandler<express.Request, express.Response>

interface World extends AsyncDisposable {
  readonly url: string
  /** What Express' error handler got. */
  readonly errors: unknown[]
}

async function open(
  handler: Handler,
  options: Partial<IdempotencyOptions<express.Request>> = {},
  use: readonly express.RequestHandler[] = [express.json()],
): Promise<World> {
  const store = new MemoryIdempotencyStore(new MemoryOutboxStore())
  const idempotent = expressIdempotency(store, { scope: () => 'all', logger: recordingLogger(), ...options })
  const errors: unknown[] = []
  const app = express()
  const router = express.Router()
  router.all('/orders', ...use, idempotent(handler))
  app.use('/shop', router)
  app.use((error: { status?: number }, _request: express.Request, response: express.Response, _next: express.NextFunction) => {
    errors.push(error)
    response.status(error.status ?? 500).json({ failed: true })
  })
  const server = await serve(app)
  return { url: server.url.replace('/events', '/shop/orders'), errors, [Symbol.asyncDispose]: () => server[Symbol.asyncDispose]() }
}

const lamp = { product: 'lamp' }

describe('what a handler sends is sent after the commit and stored', () => {
  const stream = () => Readable.from([Buffer.from('in '), 'two', ' pieces'])
  const handlers: Record<string, readonly [handler: Handler, status: number, body: string]> = {
    'json()': [(_, response) => response.status(201).json(lamp), 201, '{"product":"lamp"}'],
    'send() of a text': [(_, response) => response.send('text'), 200, 'text'],
    'send() of bytes': [(_, response) => response.send(Buffer.from('bytes')), 200, 'bytes'],
    'sendStatus()': [(_, response) => response.sendStatus(202), 202, 'Accepted'],
    'redirect()': [(_, response) => response.redirect(303, '/orders/1'), 303, 'See Other. Redirecting to /orders/1'],
    'an empty answer': [(_, response) => response.status(204).end(), 204, ''],
    'writeHead(), write() and end()': [
      (_, response) => {
        response.writeHead(201, 'Made', { 'x-one': '1', 'x-two': ['2', '3'] })
        response.write('abc')
        response.write('ZGVm', 'base64')
        response.end('g', 'utf8', () => {})
      },
      201,
      'abcdefg',
    ],
    'writeHead() with a list': [(_, response) => response.writeHead(202, ['x-one', '1']).end(), 202, ''],
    'a stream that is piped': [(_, response) => stream().pipe(response), 200, 'in two pieces'],
    'a pipeline that is awaited': [async (_, response) => await pipeline(stream(), response), 200, 'in two pieces'],
    'an answer that is awaited': [
      (_, response) =>
        new Promise((resolve) => {
          response.once('finish', resolve)
          response.send('awaited')
        }),
      200,
      'awaited',
    ],
    'a callback': [(_, response) => void setImmediate(() => response.send('later')), 200, 'later'],
  }

  it.each(Object.entries(handlers))('by %s', async (_, [handler, status, body]) => {
    let calls = 0
    await using world = await open((request, response, next) => {
      calls += 1
      return handler(request, response, next)
    })
    const send = () => fetch(world.url, { method: 'POST', headers: { 'idempotency-key': 'k' }, redirect: 'manual' })
    const [first, second] = [await send(), await send()]
    const own = ({ headers }: Response) => [...headers].filter(([name]) => !['date', 'idempotency-replayed'].includes(name))

    expect([first.status, await first.text()]).toEqual([status, body])
    expect([second.status, await second.text()]).toEqual([status, body])
    expect(own(second)).toEqual(own(first))
    expect([first.headers.has('idempotency-replayed'), second.headers.has('idempotency-replayed')]).toEqual([false, true])
    expect(calls).toBe(1)
    expect(world.errors).toEqual([])
  })

  it('and until then the response looks sent to the handler, and is not', async () => {
    const [sent, gate] = [deferred<unknown[]>(), deferred()]
    await using world = await open(async (_request, response) => {
      const before = [response.headersSent, response.writableEnded]
      response.send('answer')
      sent.resolve([...before, response.headersSent, response.writableEnded])
      await gate.promise
    })
    let isAnswered = false
    const answer = sendOrder(world.url, lamp).finally(() => {
      isAnswered = true
    })

    expect(await sent.promise).toEqual([false, false, true, true])
    // Its round trip takes longer than an answer that is on its way.
    expect((await sendOrder(world.url, lamp)).status).toBe(409)
    expect(isAnswered).toBe(false)
    gate.resolve()
    expect((await answer).body).toBe('answer')
  })
})

describe('an error', () => {
  const failure = new Error('out of order')
  const handlers: Record<string, Handler> = {
    thrown: () => {
      throw failure
    },
    'rejected with': () => Promise.reject(failure),
    'passed to next()': (_request, _response, next) => next(failure),
    'passed to next() later': (_request, _response, next) => void setImmediate(() => next(failure)),
    'thrown after the answer': async (_request, response) => {
      response.set('x-late', 'yes').send('answer')
      throw failure
    },
    'thrown after headers and half of the answer': async (_request, response) => {
      response.writeHead(201)
      response.write('half')
      throw failure
    },
    'of a stream': async (_request, response) => {
      const broken = new Readable({ read: () => void broken.destroy(failure) })
      await pipeline(broken, response)
    },
  }

  it.each(Object.entries(handlers))('that is %s reaches the error handler, and the request is carried out again', async (_, handler) => {
    let fails = true
    await using world = await open((request, response, next) => (fails ? handler(request, response, next) : response.send('done')))
    const failed = await sendOrder(world.url, lamp)
    fails = false

    expect([failed.status, failed.body]).toEqual([500, '{"failed":true}'])
    expect(world.errors).toEqual([failure])
    expect(await sendOrder(world.url, lamp)).toMatchObject({ body: 'done', isReplayed: false })
  })

  it('is a call of next() without one', async () => {
    await using world = await open((_request, _response, next) => next())

    expect((await sendOrder(world.url, lamp)).status).toBe(500)
    expect(world.errors).toMatchObject([{ code: 'ACKORD_WRONG_DATA', message: expect.stringContaining('next()') }])
  })

  it('is an answer that never ends and is too large; what the handler still writes is lost', async () => {
    const endless = () =>
      new Readable({
        read() {
          this.push('x'.repeat(1000))
        },
      })
    const streams: Readable[] = []
    await using world = await open(
      (_request, response) => {
        const stream = endless()
        streams.push(stream)
        stream.pipe(response)
      },
      { maxAnswerSize: 10_000 },
    )
    const failed = await sendOrder(world.url, lamp)
    for (const stream of streams) stream.destroy()

    expect([failed.status, failed.body]).toEqual([500, '{"failed":true}'])
    expect(world.errors).toMatchObject([{ message: expect.stringContaining('`maxAnswerSize`') }])
  })

  it('is an answer that does not come within the lease', async () => {
    await using world = await open(() => {}, { lease: 50 })

    expect((await sendOrder(world.url, lamp)).status).toBe(500)
    expect(world.errors).toMatchObject([{ code: 'ACKORD_PROCESS_TIMEOUT' }])
  })

  it('is a body that no parser has read', async () => {
    await using world = await open((_request, response) => response.send('done'))
    const send = (headers: Record<string, string>, body?: string) =>
      fetch(world.url, { method: 'POST', headers: { 'idempotency-key': 'k', ...headers }, ...(body === undefined ? {} : { body }) })

    expect((await send({ 'content-type': 'text/plain' }, 'text')).status).toBe(415)
    expect(world.errors).toMatchObject([{ code: 'ACKORD_WRONG_DATA', message: expect.stringContaining('"text/plain"') }])
    expect((await send({})).status).toBe(200)
  })
})

it('replays no cookies, and no headers of the middleware before it', async () => {
  let requests = 0
  await using world = await open((_request, response) => response.cookie('session', 'of Ann').set('x-own', '1').send('done'), {}, [
    express.json(),
    (_request, response, next) => {
      requests += 1
      response.set('x-request-id', String(requests)).cookie('seen', String(requests))
      next()
    },
  ])
  const shown = ({ headers }: { readonly headers: Headers }) => [headers.get('x-request-id'), headers.get('x-own'), headers.getSetCookie()]

  expect(shown(await sendOrder(world.url, lamp))).toEqual(['1', '1', ['seen=1; Path=/', 'session=of%20Ann; Path=/']])
  expect(shown(await sendOrder(world.url, lamp))).toEqual(['2', '1', ['seen=2; Path=/']])
})

it('handles other methods as if it were not there', async () => {
  let hasContext = true
  await using world = await open((_request, response) => {
    hasContext = currentContext() !== undefined
    response.set('x-own', '1').send('listed')
  })
  const response = await fetch(world.url)

  expect([response.status, await response.text(), hasContext]).toEqual([200, 'listed', false])
})

it('hands errors of other methods to the error handler', async () => {
  await using world = await open(() => Promise.reject(new Error('out of order')))

  expect((await fetch(world.url)).status).toBe(500)
  expect(world.errors).toMatchObject([{ message: 'out of order' }])
})

it('tells paths below a router apart', async () => {
  await using world = await open((request, response) => response.send(request.originalUrl))
  const send = (query: string) => sendOrder(`${world.url}${query}`, lamp)

  expect([(await send('?a=1')).status, (await send('?a=2')).status, (await send('?a=1')).body]).toEqual([200, 422, '/shop/orders?a=1'])
})

it('keeps the connection after a refusal', async () => {
  await using world = await open((_request, response) => response.send('done'))
  const agentless = (key: string) =>
    new Promise<string | undefined>((resolve, reject) => {
      const request = httpRequest(
        world.url,
        { method: 'POST', headers: { 'idempotency-key': key, connection: 'keep-alive' } },
        (response) => {
          response.resume()
          response.once('end', () => resolve(response.headers.connection))
        },
      )
      request.once('error', reject)
      request.end()
    })

  expect(await agentless('not valid')).toBe('keep-alive')
})
