// @ts-check
// CloudEvents over HTTP: the source's handler in the server of the runtime, and in node:http.
import { deepStrictEqual, rejects } from 'node:assert/strict'
import { Message, publishAll, silentLogger } from '@ackord/core'
import { httpPublisher, httpSource, toHonoHandler, toNodeHandler } from '@ackord/http'
import { Hono } from 'hono'
import { serveFetch, serveNode } from './serve.mjs'

const secret = 'whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY='

/** @type {Readonly<Record<string, (source: import('@ackord/http').HttpSource) => ReturnType<typeof serveFetch>>>} */
const servers = {
  'fetch handler': (source) => serveFetch(source.handler),
  Hono: (source) => serveFetch(async (request) => await new Hono().post('*', toHonoHandler(source.handler)).fetch(request)),
  'node:http': (source) => serveNode(toNodeHandler(source.handler)),
}

/** @param {import('./checks.mjs').Checks} checks */
export async function register({ describe, it }) {
  for (const [name, serve] of Object.entries(servers)) {
    describe(`HTTP: ${name}`, () => {
      for (const mode of /** @type {const} */ (['binary', 'structured', 'batch'])) {
        it(`receives and acks a message in ${mode} mode`, () => roundTrip(serve, { mode }))
      }
      it('receives a signed message', () => roundTrip(serve, { mode: 'structured', sign: secret }, { verify: secret }))
      it('refuses the verdict of a message whose sender has disconnected', () => disconnected(serve))
      it('answers a nacked message with an error, and receives it again', () => nacked(serve))
    })
  }
  return async () => {}
}

/** @param {string} id */
const event = (id) => {
  const attributes = { id, type: 'order.placed', source: '/shop', specversion: '1.0', subject: 'größe' }
  return new Message(new TextEncoder().encode(`{"id":"${id}"}`), attributes)
}

/**
 * @param {(source: import('@ackord/http').HttpSource) => ReturnType<typeof serveFetch>} serve
 * @param {import('@ackord/http').HttpPublisherOptions} options
 * @param {import('@ackord/http').HttpSourceOptions} sourceOptions
 */
async function roundTrip(serve, options, sourceOptions = {}) {
  const source = httpSource({ logger: silentLogger, ...sourceOptions })
  const server = await serve(source)
  const publisher = httpPublisher({ url: `${server.url}/events`, ...options })
  const ids = ['e1', 'e2', 'e3']
  const messages = source.messages({ signal: AbortSignal.timeout(10_000) })[Symbol.asyncIterator]()
  let next = messages.next()
  const publishing = publishAll(publisher, 'orders', ids.map(event))
  const received = []
  for (const _ of ids) {
    const { value: message } = await next
    received.push([message.id, message.attributes.subject, new TextDecoder().decode(message.data)])
    if (received.length < ids.length) next = messages.next()
    await message.ack()
  }
  await publishing
  await messages.return?.()
  await publisher[Symbol.asyncDispose]()
  await source[Symbol.asyncDispose]()
  await server.close()
  deepStrictEqual(
    received.sort(),
    ids.map((id) => [id, 'größe', `{"id":"${id}"}`]),
  )
}

/** @param {(source: import('@ackord/http').HttpSource) => ReturnType<typeof serveFetch>} serve */
async function nacked(serve) {
  const source = httpSource({ logger: silentLogger })
  const server = await serve(source)
  const publisher = httpPublisher({ url: `${server.url}/events` })
  const messages = source.messages({ signal: AbortSignal.timeout(10_000) })[Symbol.asyncIterator]()
  const first = messages.next()
  const failing = publishAll(publisher, 'orders', [event('e1')])
  failing.catch(() => {})
  const { value: message } = await first
  await message.nack(new Error('not now'))
  await rejects(failing)
  const second = messages.next()
  const publishing = publishAll(publisher, 'orders', [event('e1')])
  const { value: again } = await second
  await again.ack()
  await publishing
  await messages.return?.()
  await publisher[Symbol.asyncDispose]()
  await source[Symbol.asyncDispose]()
  await server.close()
  deepStrictEqual([again.id, again.deliveryCount], ['e1', 2])
}

/** @param {(source: import('@ackord/http').HttpSource) => ReturnType<typeof serveFetch>} serve */
async function disconnected(serve) {
  const source = httpSource({ logger: silentLogger })
  /** @type {() => void} */
  let notice = () => {}
  /** @type {Promise<void>} */
  const noticed = new Promise((resolve) => {
    notice = resolve
  })
  const server = await serve(
    Object.assign(Object.create(source), {
      handler(/** @type {Request} */ request) {
        request.signal.addEventListener('abort', () => notice())
        return source.handler(request)
      },
    }),
  )
  const messages = source.messages({ signal: AbortSignal.timeout(30_000) })[Symbol.asyncIterator]()
  const first = messages.next()
  const sender = new AbortController()
  const headers = { 'ce-id': 'e1', 'ce-type': 'order.placed', 'ce-source': '/shop', 'ce-specversion': '1.0' }
  const sending = fetch(`${server.url}/events`, { method: 'POST', body: '{}', headers, signal: sender.signal })
  sending.catch(() => {})
  const { value: message } = await first
  sender.abort()
  await noticed
  await rejects(message.ack(), { code: 'ACKORD_LEASE_LOST' })
  await messages.return?.()
  await source[Symbol.asyncDispose]()
  await server.close()
}
