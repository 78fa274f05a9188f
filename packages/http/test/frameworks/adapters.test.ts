import { once } from 'node:events'
import { type ClientRequest, request as httpRequest, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { publishAll } from '@ackord/core'
import { deferred, recordingLogger } from '@ackord/testkit'
import { serve as serveHono } from '@hono/node-server'
import express from 'express'
import fastify from 'fastify'
import { Hono } from 'hono'
import { describe, expect, it } from 'vitest'
import {
  type HttpSource,
  type HttpSourceOptions,
  httpPublisher,
  httpSource,
  toExpressHandler,
  toFastifyPlugin,
  toHonoHandler,
  toNodeHandler,
} from '../../src/index.ts'
import { event, never, open, portOf, pull, secretOf, serve, text } from '../support/world.ts'

interface RunningServer extends AsyncDisposable {
  readonly url: string
}

const local = (port: number) => `http://127.0.0.1:${port}/events`

const servers: Record<string, (source: Pick<HttpSource, 'handler'>) => Promise<RunningServer>> = {
  'node:http': ({ handler }) => serve(toNodeHandler(handler)),
  async Express({ handler }) {
    const app = express()
    app.all('/events', toExpressHandler(handler))
    // Registered after the handler, so that the parser must not affect its requests.
    app.use(express.json())
    const server = app.listen(0, '127.0.0.1')
    await once(server, 'listening')
    return {
      url: local(portOf(server)),
      async [Symbol.asyncDispose]() {
        server.closeAllConnections()
        await new Promise((resolve) => server.close(resolve))
      },
    }
  },
  async Fastify({ handler }) {
    const app = fastify({ forceCloseConnections: true })
    await app.register(toFastifyPlugin(handler, '/events'))
    app.post('/other', async (request) => ({ parsed: request.body }))
    await app.listen({ port: 0, host: '127.0.0.1' })
    return { url: local(portOf(app.server)), [Symbol.asyncDispose]: () => app.close() }
  },
  async Hono({ handler }) {
    const app = new Hono()
    app.all('/events', toHonoHandler(handler))
    const started = deferred<AddressInfo>()
    const server = serveHono({ fetch: app.fetch, port: 0, hostname: '127.0.0.1' }, started.resolve)
    return {
      url: local((await started.promise).port),
      async [Symbol.asyncDispose]() {
        if ('closeAllConnections' in server) server.closeAllConnections()
        await new Promise((resolve) => server.close(resolve))
      },
    }
  },
}

async function setup(name: string, options: HttpSourceOptions = {}, onRequest: (request: Request) => void = () => {}) {
  const source = httpSource({ logger: recordingLogger(), ...options })
  const handler = (request: Request) => {
    onRequest(request)
    return source.handler(request)
  }
  const server = await servers[name]?.({ handler })
  if (server === undefined) throw new Error(`There is no server ${name}.`)
  return {
    source,
    url: server.url,
    async [Symbol.asyncDispose]() {
      await source[Symbol.asyncDispose]()
      await server[Symbol.asyncDispose]()
    },
  }
}

describe.each(Object.keys(servers))('%s', (name) => {
  it.each(['binary', 'structured', 'batch'] as const)('carries signed events in %s mode', async (mode) => {
    await using world = await setup(name, { verify: secretOf('one'), ...(mode === 'binary' ? { unsignedAttributes: true } : {}) })
    const messages = open(world.source)
    const publisher = httpPublisher({ url: world.url, mode, sign: [secretOf('two'), secretOf('one')] })
    const sent = [event('a', { subject: 'für "5 €"\r\n', partitionkey: 'k' }), event('b', { partitionkey: 'k' })]
    const publishing = publishAll(publisher, 'd', sent)
    const seen: unknown[] = []
    for (let count = 0; count < 2; count += 1) {
      const message = await pull(messages)
      seen.push([message.attributes, text(message)])
      await message.ack()
    }
    await publishing

    expect(seen).toEqual(sent.map((message) => [{ ...message.attributes }, text(message)]))
  })

  it('rejects another secret', async () => {
    await using world = await setup(name, { verify: secretOf('one') })
    open(world.source)

    expect(await httpPublisher({ url: world.url, sign: secretOf('two') }).publish('d', [event('a')], { signal: never })).toMatchObject([
      { ok: false, scope: 'destination', error: { message: expect.stringContaining('401') } },
    ])
  })

  it('reports a nack, other methods and a stop', async () => {
    await using world = await setup(name)
    const publisher = httpPublisher({ url: world.url })
    expect(await publisher.publish('d', [event('a')], { signal: never })).toMatchObject([{ scope: 'destination', retryAfter: 5000 }])
    const messages = open(world.source)
    const publishing = publisher.publish('d', [event('a')], { signal: never })
    await (await pull(messages)).nack(new Error('later'), { retryAfter: 3000 })

    expect(await publishing).toEqual([{ ok: false, error: expect.any(Error), retryAfter: 3000 }])
    expect((await fetch(world.url)).status).toBe(405)
    expect((await fetch(world.url, { method: 'POST', body: '{}', headers: { 'content-type': 'application/json' } })).status).toBe(415)
  })

  it('answers a body that is too large, declared or not, and keeps the connection', async () => {
    await using world = await setup(name, { maxBodySize: 100_000 })
    const messages = open(world.source)
    const publisher = httpPublisher({ url: world.url })
    const large = Object.assign(event('large'), { data: new Uint8Array(5_000_000) })

    expect(await publisher.publish('d', [large], { signal: never })).toMatchObject([{ ok: false, permanent: true }])
    const unsaid = new ReadableStream({
      start(controller) {
        for (let chunk = 0; chunk < 20; chunk += 1) controller.enqueue(new Uint8Array(10_000))
        controller.close()
      },
    })
    const response = await fetch(world.url, { method: 'POST', body: unsaid, duplex: 'half', headers: { 'ce-id': 'x' } })
    expect([response.status, await response.text()]).toEqual([413, 'The body is larger than 100000 bytes.\n'])

    const next = publisher.publish('d', [event('small')], { signal: never })
    await (await pull(messages)).ack()
    expect(await next).toEqual([{ ok: true }])
  })

  it('answers a body that is too slow', async () => {
    await using world = await setup(name, { bodyTimeout: 50 })
    open(world.source)
    const request: ClientRequest = httpRequest(world.url, { method: 'POST', headers: { 'ce-id': 'x', 'content-length': '10' } })
    request.on('error', () => {})
    request.write('12345')
    const [response] = (await once(request, 'response')) as [IncomingMessage]
    response.resume()

    expect(response.statusCode).toBe(408)
    request.destroy()
  })

  it('continues to handle a message whose client has disconnected', async () => {
    const gone = deferred()
    await using world = await setup(name, {}, ({ signal }) => signal.addEventListener('abort', () => gone.resolve()))
    const messages = open(world.source)
    const headers = { 'ce-id': 'x', 'ce-type': 't', 'ce-source': '/s', 'ce-specversion': '1.0' }
    const request = httpRequest(world.url, { method: 'POST', headers })
    request.on('error', () => {})
    request.end('{}')
    const message = await pull(messages)
    request.destroy()
    await gone.promise

    await expect(message.ack()).rejects.toMatchObject({ code: 'ACKORD_LEASE_LOST' })
  })
})

describe('Express behind a parser', () => {
  async function behind(parser: express.RequestHandler) {
    const source = httpSource({ logger: recordingLogger() })
    const app = express()
    app.use(parser)
    app.post('/events', toExpressHandler(source.handler))
    const errors: unknown[] = []
    app.use((error: unknown, _request: express.Request, response: express.Response, _next: express.NextFunction) => {
      errors.push(error)
      response.status(500).end()
    })
    const server = await serve(app)
    return { source, url: server.url, errors, [Symbol.asyncDispose]: () => server[Symbol.asyncDispose]() }
  }

  it('of bytes works', async () => {
    await using world = await behind(express.raw({ type: '*/*' }))
    const messages = open(world.source)
    const publishing = httpPublisher({ url: world.url }).publish('d', [event('a')], { signal: never })
    const message = await pull(messages)
    await message.ack()

    expect([text(message), await publishing]).toEqual(['{"id":"a"}', [{ ok: true }]])
  })

  it('of JSON is an error that says so', async () => {
    await using world = await behind(express.json())
    open(world.source)

    expect(await httpPublisher({ url: world.url }).publish('d', [event('a')], { signal: never })).toMatchObject([{ ok: false }])
    expect(world.errors).toMatchObject([{ message: expect.stringContaining('body parser') }])
  })
})

it('Fastify’s other routes keep their parsers', async () => {
  await using world = await setup('Fastify')
  const response = await fetch(world.url.replace('/events', '/other'), {
    method: 'POST',
    body: '{"a":1}',
    headers: { 'content-type': 'application/json' },
  })

  expect(await response.json()).toEqual({ parsed: { a: 1 } })
})

it('a server that is closed and reopened receives everything, under the same ids', async () => {
  const source = httpSource({ logger: recordingLogger() })
  const seen = new Set<string>()
  void (async () => {
    for await (const message of source.messages({ signal: never })) {
      seen.add(message.id ?? '')
      await message.ack()
    }
  })()
  let server = await serve(toNodeHandler(source.handler))
  const port = new URL(server.url).port
  const publisher = httpPublisher({ url: server.url })
  let waiting = Array.from({ length: 60 }, (_, index) => event(`m${index}`))
  let failures = 0
  for (let round = 0; waiting.length > 0 && round < 50; round += 1) {
    const publishing = publisher.publish('d', waiting.slice(0, 20), { signal: never })
    if (round === 1) await server[Symbol.asyncDispose]()
    const results = await publishing
    failures += results.filter(({ ok }) => !ok).length
    waiting = waiting.filter((_, index) => results[index]?.ok !== true)
    if (round === 1) {
      server = await serve(toNodeHandler(source.handler))
      await new Promise<void>((resolve) => server.server.close(() => resolve()))
      server.server.listen(Number(port), '127.0.0.1')
      await once(server.server, 'listening')
    }
  }
  await source[Symbol.asyncDispose]()
  await server[Symbol.asyncDispose]()

  expect(waiting).toEqual([])
  expect(failures).toBeGreaterThan(0)
  expect(seen.size).toBe(60)
})
