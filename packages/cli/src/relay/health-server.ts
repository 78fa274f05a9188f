import type { ServerResponse } from 'node:http'
import type { RelayGroupHealth, RelayHealth } from '@ackord/outbox'
import { type HttpServer, type ServerAddress, startHttpServer } from '../serving/http-server.ts'

export interface HealthServerOptions extends ServerAddress {
  readonly health: () => RelayHealth | RelayGroupHealth
  /** The metrics in the text format of Prometheus. */
  readonly metrics: () => string
}

/**
 * - `/health/live`: 200 as long as the event loop runs.
 * - `/health/ready`: 200 while the relay runs and its store answers, or one of its stores, else 503. A destination that is down is no reason to restart a
 *   relay, nor is one store of several.
 * - `/health`: the health of the relay as JSON; of each store, if there are several.
 * - `/metrics`
 */
export async function startHealthServer({ host, port, health, metrics }: HealthServerOptions): Promise<HttpServer> {
  return await startHttpServer({ host, port }, (request, response) => {
    const path = pathOf(request.url ?? '/')
    if (request.method !== 'GET' && request.method !== 'HEAD') return answer(response, 405, 'text/plain', 'Only GET.\n')
    if (path === '/health/live') return answer(response, 200, 'text/plain', 'ok\n')
    if (path === '/health/ready')
      return isReady(health()) ? answer(response, 200, 'text/plain', 'ok\n') : answer(response, 503, 'text/plain', 'not ready\n')
    if (path === '/health')
      return answer(response, isReady(health()) ? 200 : 503, 'application/json', `${JSON.stringify(healthObject(health()))}\n`)
    if (path === '/metrics') return answer(response, 200, 'text/plain; version=0.0.4; charset=utf-8', metrics())
    return answer(response, 404, 'text/plain', 'Not found. Available: /health, /health/live, /health/ready and /metrics.\n')
  })
}

/** Without a URL parser: no request may make it throw. A proxy sends the whole URL. */
function pathOf(target: string): string {
  return target.replace(/^https?:\/\/[^/?]*/i, '').replace(/\?.*$/s, '')
}

function isReady(health: RelayHealth | RelayGroupHealth): boolean {
  if ('stores' in health) return Object.values(health.stores).some(isReady)
  return health.state === 'running' && health.store === 'up'
}

function healthObject(health: RelayHealth | RelayGroupHealth): object {
  if (!('stores' in health)) return relayObject(health)
  return { state: health.state, stores: Object.fromEntries(Object.entries(health.stores).map(([name, each]) => [name, relayObject(each)])) }
}

/** Without the error itself: it may contain information that is not for every client of the port. */
function relayObject({
  lastStoreError: _,
  downDestinations,
  inFlight,
  leasesLost,
  deadLetters,
  deadLettersFailed,
  backlog,
  ...health
}: RelayHealth): object {
  return {
    ...health,
    down_destinations: downDestinations,
    in_flight: inFlight,
    leases_lost: leasesLost,
    dead_letters: deadLetters,
    dead_letters_failed: deadLettersFailed,
    backlog:
      backlog === undefined
        ? null
        : { ...backlog, oldestAge: undefined, oldest_age_ms: backlog.oldestAge ?? null, at: new Date(backlog.at).toISOString() },
  }
}

function answer(response: ServerResponse, status: number, type: string, body: string): void {
  response.writeHead(status, { 'content-type': type, 'content-length': Buffer.byteLength(body), 'cache-control': 'no-store' })
  response.end(body)
}
