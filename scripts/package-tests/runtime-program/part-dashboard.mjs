// @ts-check
// The dashboard, mounted in the server of the runtime, in Hono, and in node:http.
import { deepStrictEqual, match } from 'node:assert/strict'
import { Message, silentLogger } from '@ackord/core'
import { allowEverybody, createDashboard } from '@ackord/dashboard'
import { MemoryOutboxStore } from '@ackord/outbox'
import { Hono } from 'hono'
import { serveFetch, serveNode } from './serve.mjs'

/** @type {Readonly<Record<string, (dashboard: ReturnType<typeof createDashboard>) => ReturnType<typeof serveFetch>>>} */
const servers = {
  fetch: (dashboard) => serveFetch(dashboard.fetch),
  Hono: (dashboard) =>
    serveFetch(async (request) => await new Hono().all('/ackord/*', (context) => dashboard.fetch(context.req.raw)).fetch(request)),
  'node:http': (dashboard) => serveNode((request, response) => void dashboard.node(request, response)),
}

/** @param {import('./checks.mjs').Checks} checks */
export async function register({ describe, it }) {
  for (const [name, serve] of Object.entries(servers)) {
    describe(`dashboard: ${name}`, () => {
      it('serves the page, the API, its events and an action', async () => {
        const store = new MemoryOutboxStore()
        const transaction = store.begin()
        const message = new Message(new TextEncoder().encode('{}'), { id: 'e1', type: 'order.placed', source: '/shop', specversion: '1.0' })
        await store.append(transaction, [{ destination: 'events', message }])
        transaction.commit()
        const dashboard = createDashboard({
          stores: { orders: store },
          basePath: '/ackord',
          authorize: allowEverybody(),
          logger: silentLogger,
        })
        const server = await serve(dashboard)
        try {
          await useDashboard(`${server.url}/ackord`)
        } finally {
          // First the dashboard, which ends its open streams of events.
          await dashboard.close()
          await server.close()
        }
      })
    })
  }
  return async () => {}
}

/** @param {string} url */
async function useDashboard(url) {
  const page = await fetch(`${url}/`)
  deepStrictEqual([page.status, page.headers.get('content-type')], [200, 'text/html; charset=utf-8'])
  const html = await page.text()
  const script = /src="([^"]+\.js)"/.exec(html)?.[1] ?? ''
  const code = await fetch(new URL(script, `${url}/`))
  deepStrictEqual(code.status, 200)
  match(await code.text(), /fetch\(/)
  const { csrf } = /** @type {import('@ackord/dashboard').Session} */ (await (await fetch(`${url}/api/session`)).json())
  const listed = await fetch(`${url}/api/stores/orders/records?state=ready`)
  const { records } = /** @type {import('@ackord/dashboard').RecordPage} */ (await listed.json())
  deepStrictEqual(records.length, 1)
  const stop = new AbortController()
  const events = await fetch(`${url}/api/events`, { signal: stop.signal })
  const reader = /** @type {ReadableStream<Uint8Array>} */ (events.body).getReader()
  await readUntil(reader, /overview/)
  const actions = `${url}/api/stores/orders/actions`
  const body = JSON.stringify({ action: 'pause', destination: 'events', reason: 'test' })
  const headers = { 'content-type': 'application/json' }
  const refused = await fetch(actions, { method: 'POST', body, headers })
  deepStrictEqual(refused.status, 403)
  await refused.text()
  const paused = await fetch(actions, { method: 'POST', body, headers: { ...headers, 'x-ackord-csrf': csrf } })
  const { state, count } = /** @type {import('@ackord/dashboard').Job} */ (await paused.json())
  deepStrictEqual([paused.status, state, count], [200, 'done', 1])
  // A later event on the same stream.
  await readUntil(reader, /"paused":{/)
  stop.abort()
}

/** Reads events until their text matches. @param {ReadableStreamDefaultReader<Uint8Array>} reader @param {RegExp} pattern */
async function readUntil(reader, pattern) {
  const decoder = new TextDecoder()
  for (let text = ''; !pattern.test(text); ) {
    const { done, value } = await reader.read()
    if (done) throw new Error(`The events ended before they matched ${pattern}: ${text}`)
    text += decoder.decode(value, { stream: true })
  }
}
