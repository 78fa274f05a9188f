import { Readable } from 'node:stream'
import { MemoryIdempotencyStore, MemoryOutboxStore } from '@ackord/outbox'
import { recordingLogger } from '@ackord/testkit'
import fastify, { type FastifyReply, type FastifyRequest, type RouteShorthandOptions } from 'fastify'
import { describe, expect, it } from 'vitest'
import { fastifyIdempotency, type IdempotencyOptions } from '../../src/idempotency/index.ts'

type Handler = (request: FastifyRequest, reply: FastifyReply) => unknown

function open(handler: Handler, options: Partial<IdempotencyOptions<FastifyRequest>> = {}, route: RouteShorthandOptions = {}) {
  const store = new MemoryIdempotencyStore(new MemoryOutboxStore())
  const idempotent = fastifyIdempotency(store, { scope: () => 'all', logger: recordingLogger(), ...options })
  const app = fastify()
  const errors: unknown[] = []
  app.setErrorHandler((error, _request, reply) => {
    errors.push(error)
    return reply.code(500).send({ failed: true })
  })
  app.post('/orders', route, idempotent(handler))
  app.get('/orders', route, idempotent(handler))
  const send = async (more: { readonly key?: string; readonly method?: 'GET' | 'POST' } = {}) => {
    const { key = 'k', method = 'POST' } = more
    const { statusCode, body, headers } = await app.inject({ method, url: '/orders', headers: { 'idempotency-key': key } })
    return { status: statusCode, body, headers, isReplayed: headers['idempotency-replayed'] === 'true' }
  }
  return { app, send, errors, [Symbol.asyncDispose]: () => app.close() }
}

describe('what a handler returns or sends is sent after the commit and stored', () => {
  const handlers: Record<string, readonly [handler: Handler, status: number, body: string, type: string | undefined]> = {
    'an object': [async () => ({ a: 1 }), 200, '{"a":1}', 'application/json; charset=utf-8'],
    'a text': [async () => 'text', 200, 'text', 'text/plain; charset=utf-8'],
    bytes: [async () => Buffer.from('bytes'), 200, 'bytes', 'application/octet-stream'],
    nothing: [async (_, reply) => void reply.code(204), 204, '', undefined],
    'an object with another content type': [
      async (_, reply) => reply.type('application/hal+json; charset=utf-8').send({ a: 1 }),
      200,
      '{"a":1}',
      'application/hal+json; charset=utf-8',
    ],
    'a value that was not promised': [() => ({ a: 1 }), 200, '{"a":1}', 'application/json; charset=utf-8'],
    'send() that is returned': [async (_, reply) => reply.code(201).send({ a: 1 }), 201, '{"a":1}', 'application/json; charset=utf-8'],
    'send() that is awaited': [async (_, reply) => void (await reply.code(201).send('a')), 201, 'a', 'text/plain; charset=utf-8'],
    'send() in a callback': [
      (_, reply) => void setImmediate(() => reply.code(202).send('later')),
      202,
      'later',
      'text/plain; charset=utf-8',
    ],
    'send() in a callback of a promise': [
      async (_, reply) => {
        setImmediate(() => reply.send('later'))
        return reply
      },
      200,
      'later',
      'text/plain; charset=utf-8',
    ],
    'redirect()': [async (_, reply) => reply.redirect('/orders/1', 303), 303, '', undefined],
    'a stream of Node': [
      async () => Readable.from([Buffer.from('in '), Buffer.from('pieces')]),
      200,
      'in pieces',
      'application/octet-stream',
    ],
    'a stream of the web': [async () => new Response('web').body, 200, 'web', 'application/octet-stream'],
    'a response of Fetch': [
      async (_, reply) => {
        reply.header('x-own', '1')
        return new Response('web', { status: 201, headers: { 'content-type': 'text/x' } })
      },
      201,
      'web',
      'text/x',
    ],
    'what callNotFound() sends': [
      (_, reply) => void reply.callNotFound(),
      404,
      '{"message":"Route POST:/orders not found","error":"Not Found","statusCode":404}',
      'application/json; charset=utf-8',
    ],
  }

  it.each(Object.entries(handlers))('%s', async (_, [handler, status, body, type]) => {
    let calls = 0
    await using world = open((request, reply) => {
      calls += 1
      return handler(request, reply)
    })
    const [first, second] = [await world.send(), await world.send()]
    const { date: _date, 'idempotency-replayed': _replayed, ...replayed } = second.headers
    const { date: _first, ...original } = first.headers

    expect([first.status, first.body, first.headers['content-type'], first.isReplayed]).toEqual([status, body, type, false])
    expect([second.status, second.body, second.isReplayed]).toEqual([status, body, true])
    expect(replayed).toEqual(original)
    expect(calls).toBe(1)
    expect(world.errors).toEqual([])
  })

  it('by the schema of the response', async () => {
    const schema = { response: { 201: { type: 'object', properties: { id: { type: 'string' } } } } }
    await using world = open(async (_request, reply) => reply.code(201).send({ id: 7, secret: 's' }), {}, { schema })

    expect([(await world.send()).body, (await world.send()).body]).toEqual(['{"id":"7"}', '{"id":"7"}'])
  })

  it('and goes through the hooks of the application', async () => {
    await using world = open(async () => 'text')
    world.app.addHook('onSend', async (_request, reply, payload) => {
      reply.header('x-hook', 'yes')
      return payload
    })

    expect([(await world.send()).headers['x-hook'], (await world.send()).headers['x-hook']]).toEqual(['yes', 'yes'])
  })
})

describe('an error', () => {
  const failure = new Error('out of order')
  const handlers: Record<string, Handler> = {
    thrown: () => {
      throw failure
    },
    'rejected with': () => Promise.reject(failure),
    sent: async (_request, reply) => reply.send(failure),
    returned: async () => failure,
    'thrown after an answer was sent': async (_request, reply) => {
      void reply.send('answer')
      throw failure
    },
    'of a stream': async () =>
      new Readable({
        read() {
          this.destroy(failure)
        },
      }),
  }

  it.each(Object.entries(handlers))('that is %s reaches the error handler, and the request is carried out again', async (_, handler) => {
    let fails = true
    await using world = open((request, reply) => (fails ? handler(request, reply) : Promise.resolve('done')))
    const failed = await world.send()
    fails = false

    expect([failed.status, failed.body]).toEqual([500, '{"failed":true}'])
    expect(world.errors).toEqual([failure])
    expect(await world.send()).toMatchObject({ body: 'done', isReplayed: false })
  })

  it.each<[string, Handler, string]>([
    ['hijacks the reply', async (_request, reply) => reply.hijack(), 'hijack'],
    ['sends too much', async () => 'x'.repeat(1001), '`maxAnswerSize`'],
    [
      'sends a stream that never ends',
      async () =>
        new Readable({
          read() {
            this.push('x'.repeat(100))
          },
        }),
      '`maxAnswerSize`',
    ],
    ['sends a stream that sends nothing', async () => new Readable({ read() {} }), '`lease`'],
    ['never answers', () => undefined, '`lease`'],
  ])('is a handler that %s', async (_, handler, text) => {
    await using world = open(handler, { maxAnswerSize: 1000, lease: 100 })

    expect((await world.send()).status).toBe(500)
    expect(world.errors).toMatchObject([{ message: expect.stringContaining(text) }])
  })
})

it.each<[string, Handler]>([
  ['returns', async ({ method }) => method],
  ['sends', async ({ method }, reply) => reply.send(method)],
  ['sends in a callback', ({ method }, reply) => void setImmediate(() => reply.send(method))],
])('handles other methods as if it were not there: a handler that %s', async (_, handler) => {
  await using world = open(handler)

  expect([await world.send({ method: 'GET' }), await world.send({ method: 'GET' })]).toMatchObject([
    { status: 200, body: 'GET', isReplayed: false },
    { status: 200, body: 'GET', isReplayed: false },
  ])
})

it('replays no cookies, and no headers of the hooks before it', async () => {
  let requests = 0
  await using world = open(async (_request, reply) => reply.header('set-cookie', 'session=1').header('x-own', '1').send('done'))
  world.app.addHook('onRequest', async (_request, reply) => {
    requests += 1
    reply.header('x-request-id', String(requests)).header('set-cookie', `seen=${requests}`)
  })
  const shown = ({ headers }: Awaited<ReturnType<typeof world.send>>) => [
    headers['x-request-id'],
    headers['x-own'],
    [headers['set-cookie']].flat(),
  ]

  expect(shown(await world.send())).toEqual(['1', '1', ['seen=1', 'session=1']])
  expect(shown(await world.send())).toEqual(['2', '1', ['seen=2']])
})

it('calls the handler with the instance as this', async () => {
  const store = new MemoryIdempotencyStore(new MemoryOutboxStore())
  const idempotent = fastifyIdempotency(store, { scope: () => 'all' })
  const app = fastify()
  app.post(
    '/orders',
    idempotent(async function () {
      return { isInstance: this.server === app.server }
    }),
  )

  expect((await app.inject({ method: 'POST', url: '/orders', headers: { 'idempotency-key': 'k' } })).json()).toEqual({ isInstance: true })
})
