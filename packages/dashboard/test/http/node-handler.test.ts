import 'reflect-metadata'
import { once } from 'node:events'
import { createServer, request as httpRequest, type IncomingMessage, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { connect } from 'node:net'
import { MemoryOutboxStore } from '@ackord/outbox'
import { deferred, recordingLogger } from '@ackord/testkit'
import { serve as serveHono } from '@hono/node-server'
import { Module } from '@nestjs/common'
import { NestFactory } from '@nestjs/core'
import express from 'express'
import fastify from 'fastify'
import { Hono } from 'hono'
import { describe, expect, it } from 'vitest'
import { allowEverybody, createDashboard, type Dashboard, type DashboardOptions, type Session } from '../../src/index.ts'
import { append, appendParked } from '../support/world.ts'

interface Running extends AsyncDisposable {
  readonly port: number
}

async function serve(listener: RequestListener): Promise<Running> {
  const server = createServer(listener)
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    port: (server.address() as AddressInfo).port,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

/** How each server mounts a dashboard at `/ops/ackord`. */
const servers: Record<string, { readonly basePath?: string; readonly mount: (dashboard: Dashboard) => Promise<Running> }> = {
  'node:http': { basePath: '/ops/ackord', mount: ({ node }) => serve(node) },
  Express: { mount: ({ node }) => serve(express().use('/ops/ackord', node)) },
  'Express with a base path, at the root': { basePath: '/ops/ackord', mount: ({ node }) => serve(express().use(node)) },
  'Express behind a parser': {
    mount: ({ node }) =>
      serve(
        express()
          .use(express.json({ limit: '20mb' }))
          .use('/ops/ackord', node),
      ),
  },
  'Express behind a parser of bytes': {
    mount: ({ node }) =>
      serve(
        express()
          .use(express.raw({ type: '*/*', limit: '20mb' }))
          .use('/ops/ackord', node),
      ),
  },
  'a nested router of Express': {
    mount: ({ node }) =>
      serve(
        express().use(
          '/ops',
          express
            .Router()
            .use(express.text({ type: '*/*', limit: '20mb' }))
            .use('/ackord', node),
        ),
      ),
  },
  Fastify: {
    basePath: '/ops/ackord',
    async mount({ node }) {
      const app = fastify({ forceCloseConnections: true, bodyLimit: 20_000_000 })
      app.all('/ops/ackord', (request, reply) => {
        reply.hijack()
        node(request.raw, reply.raw)
      })
      app.all('/ops/ackord/*', (request, reply) => {
        reply.hijack()
        node(Object.assign(request.raw, { body: request.body }), reply.raw)
      })
      await app.listen({ port: 0, host: '127.0.0.1' })
      return { port: (app.server.address() as AddressInfo).port, [Symbol.asyncDispose]: () => app.close() }
    },
  },
  Nest: {
    async mount({ node }) {
      class Application {}
      Module({})(Application)
      const app = await NestFactory.create(Application, { logger: false, forceCloseConnections: true })
      app.use('/ops/ackord', node)
      await app.listen(0, '127.0.0.1')
      return { port: (app.getHttpServer().address() as AddressInfo).port, [Symbol.asyncDispose]: () => app.close() }
    },
  },
  Hono: {
    basePath: '/ops/ackord',
    async mount(dashboard) {
      const app = new Hono()
      app.all('/ops/ackord/*', (context) => dashboard.fetch(context.req.raw))
      const started = deferred<AddressInfo>()
      const server = serveHono({ fetch: app.fetch, port: 0, hostname: '127.0.0.1' }, started.resolve)
      return {
        port: (await started.promise).port,
        async [Symbol.asyncDispose]() {
          if ('closeAllConnections' in server) server.closeAllConnections()
          await new Promise((resolve) => server.close(resolve))
        },
      }
    },
  },
}

async function openServer(name: string, options: Partial<DashboardOptions> = {}) {
  const { basePath, mount } = servers[name] as (typeof servers)[string]
  const store = new MemoryOutboxStore()
  const logger = recordingLogger()
  const dashboard = createDashboard({ stores: { shop: store }, authorize: allowEverybody(), basePath, logger, ...options })
  const server = await mount(dashboard)
  const origin = `http://127.0.0.1:${server.port}`
  const url = `${origin}/ops/ackord`
  return {
    store,
    logger,
    dashboard,
    origin,
    url,
    async post(path: string, body: string, headers: Readonly<Record<string, string>> = {}) {
      const { csrf } = (await (await fetch(`${url}/api/session`)).json()) as Session
      const all = { 'content-type': 'application/json', 'x-ackord-csrf': csrf, origin, ...headers }
      return await fetch(`${url}/api/${path}`, { method: 'POST', headers: all, body })
    },
    async [Symbol.asyncDispose]() {
      await dashboard.close()
      await server[Symbol.asyncDispose]()
    },
  }
}

describe.each(Object.keys(servers))('%s', (name) => {
  it('serves the API and redirects to the page', async () => {
    await using world = await openServer(name)
    await append(world.store, { id: 'a' })
    const list = await fetch(`${world.url}/api/stores/shop/records?state=ready`)
    expect([list.status, await list.json()]).toMatchObject([200, { records: [{ messageId: 'a' }] }])
    expect(list.headers.get('x-frame-options')).toBe('DENY')
    const redirect = await fetch(world.url, { redirect: 'manual' })
    expect([redirect.status, redirect.headers.get('location')]).toEqual([308, './ackord/'])
    // 503 if the page was not built.
    expect([200, 503]).toContain((await fetch(`${world.url}/`)).status)
    expect((await fetch(`${world.origin}/elsewhere`)).status).toBe(404)
  })

  it('receives a body', async () => {
    await using world = await openServer(name)
    await appendParked(world.store, { id: 'a' })
    const response = await world.post('stores/shop/actions', JSON.stringify({ action: 'rearm', which: { ids: ['1'] }, reason: 'é' }))
    expect([response.status, await response.json()]).toMatchObject([200, { state: 'done', count: 1 }])
    expect(await world.store.audit({ limit: 1 })).toMatchObject([{ reason: 'é', by: 'everybody' }])
  })

  it('refuses a body that is too large, and keeps serving', async () => {
    await using world = await openServer(name)
    const large = JSON.stringify({ reason: 'x'.repeat(7_000_000) })
    expect((await world.post('stores/shop/actions', large)).status).toBe(413)
    expect((await fetch(`${world.url}/api/session`)).status).toBe(200)
  })

  it('refuses a request of another origin', async () => {
    await using world = await openServer(name)
    expect((await world.post('stores/shop/actions', '{}', { origin: 'http://evil.example' })).status).toBe(403)
  })

  it('sends events as they happen, until the client disconnects', async () => {
    const gone = deferred()
    await using world = await openServer(name, {
      authorize(request) {
        if (request.url.endsWith('/events')) request.signal.addEventListener('abort', () => gone.resolve())
        return { name: 'ann', rights: ['view'] }
      },
    })
    await append(world.store, { id: 'a' })
    const request = httpRequest(`${world.url}/api/events`)
    request.on('error', () => {})
    request.end()
    const [response] = (await once(request, 'response')) as [IncomingMessage]
    expect(response.headers['content-type']).toBe('text/event-stream; charset=utf-8')
    const [chunk] = (await once(response, 'data')) as [Buffer]
    expect(chunk.toString()).toMatch(/^event: overview\ndata: \{"stores":\[\{"store":"shop"/)
    response.on('error', () => {})
    request.destroy()
    await gone.promise
  })
})

it('authorize gets the request of Node, with what middleware has added to it', async () => {
  const seen: unknown[] = []
  await using dashboard = createDashboard({
    stores: { shop: new MemoryOutboxStore() },
    authorize(request, incoming) {
      seen.push(request.headers.get('cookie'), (incoming as { user?: string } | undefined)?.user)
      return undefined
    },
  })
  const app = express().use((request, _response, next) => {
    Object.assign(request, { user: 'ann' })
    next()
  })
  await using server = await serve(app.use('/ackord', dashboard.node))
  const response = await fetch(`http://127.0.0.1:${server.port}/ackord/api/session`, { headers: { cookie: 'a=b' } })

  expect([response.status, seen]).toEqual([401, ['a=b', 'ann']])
})

it('a request that Fetch does not allow is answered', async () => {
  await using world = await openServer('node:http')
  const { port } = new URL(world.origin)
  const socket = connect(Number(port), '127.0.0.1')
  socket.write('TRACE /ops/ackord/api/session HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n')
  const [answer] = (await once(socket, 'data')) as [Buffer]
  socket.destroy()
  expect(answer.toString()).toMatch(/^HTTP\/1\.1 400 /)
})

it('a path that looks like a host is a path', async () => {
  await using world = await openServer('node:http')
  const { port } = new URL(world.origin)
  const socket = connect(Number(port), '127.0.0.1')
  socket.write('GET //evil.example/ops/ackord HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n')
  const [answer] = (await once(socket, 'data')) as [Buffer]
  socket.destroy()
  expect(answer.toString()).toMatch(/^HTTP\/1\.1 404 /)
})

it('a client that disconnects while its body is read is not an error', async () => {
  const [reading, gone] = [deferred(), deferred()]
  await using world = await openServer('node:http', {
    authorize(request) {
      if (request.method === 'POST') {
        request.signal.addEventListener('abort', () => gone.resolve())
        reading.resolve()
      }
      return { name: 'ann', rights: ['rearm'] }
    },
  })
  const { csrf } = (await (await fetch(`${world.url}/api/session`)).json()) as Session
  const headers = { 'content-type': 'application/json', 'x-ackord-csrf': csrf, 'content-length': '1000' }
  const request = httpRequest(`${world.url}/api/stores/shop/actions`, { method: 'POST', headers })
  request.on('error', () => {})
  request.write('{')
  await reading.promise
  request.destroy()
  await gone.promise

  expect((await fetch(`${world.url}/api/session`)).status).toBe(200)
  expect(world.logger.at('error')).toEqual([])
})
