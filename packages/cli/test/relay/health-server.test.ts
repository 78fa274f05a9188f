import { once } from 'node:events'
import { type IncomingMessage, request } from 'node:http'
import type { RelayHealth } from '@ackord/outbox'
import { describe, expect, it } from 'vitest'
import { startHealthServer } from '../../src/relay/health-server.ts'
import type { HttpServer } from '../../src/serving/http-server.ts'

const health: RelayHealth = {
  state: 'running',
  store: 'up',
  lastStoreError: undefined,
  downDestinations: [],
  inFlight: 0,
  published: 0,
  failed: 0,
  parked: 0,
  released: 0,
  leasesLost: 0,
  deadLetters: 0,
  deadLettersFailed: 0,
  backlog: undefined,
}

async function open(): Promise<HttpServer> {
  return await startHealthServer({ host: '127.0.0.1', port: 0, health: () => health, metrics: () => 'metrics\n' })
}

/** The status for a request whose target is sent unchanged; `fetch` would normalise it. */
async function statusOf({ url }: HttpServer, target: string, method = 'GET'): Promise<number | undefined> {
  const { hostname, port } = new URL(url)
  const sent = request({ hostname, port, method, path: target, signal: AbortSignal.timeout(10_000) }).end()
  const [response] = (await once(sent, 'response')) as [IncomingMessage]
  response.resume()
  await once(response, 'end')
  return response.statusCode
}

describe('the health endpoint of a relay', () => {
  it.each(['//', '///', '//[', '//:x/health', 'http://', 'http://[', '*', '/%', '/health/'])(
    'answers %s with 404, and keeps running',
    async (target) => {
      await using server = await open()
      expect(await statusOf(server, target)).toBe(404)
      expect(await statusOf(server, '/health/live')).toBe(200)
    },
  )

  it.each(['/metrics?', '/metrics?name=a/b', '/metrics?//', 'http://127.0.0.1:9090/metrics', 'HTTP://relay/metrics?x'])(
    'answers %s with the metrics',
    async (target) => {
      await using server = await open()
      expect(await statusOf(server, target)).toBe(200)
    },
  )

  it('answers a target that is not a path with 405 to other methods', async () => {
    await using server = await open()
    expect(await statusOf(server, '*', 'OPTIONS')).toBe(405)
    expect(await statusOf(server, '//', 'POST')).toBe(405)
  })
})
