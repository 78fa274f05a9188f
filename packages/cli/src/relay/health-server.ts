import { once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { RelayHealth } from '@ackord/outbox'
import { CommandError, exitCode } from '../output/errors.ts'
import { errorText } from '../output/output.ts'

export interface HealthServerOptions {
  readonly host: string
  /** 0: any free port. */
  readonly port: number
  readonly health: () => RelayHealth
  /** The metrics in the text format of Prometheus. */
  readonly metrics: () => string
}

export interface HealthServer extends AsyncDisposable {
  /** The address it listens on. */
  readonly url: string
}

/**
 * - `/health/live`: 200 as long as the event loop runs.
 * - `/health/ready`: 200 while the relay runs and its store answers, else 503. A destination that is down is no reason to restart a relay.
 * - `/health`: the health of the relay as JSON.
 * - `/metrics`
 */
export async function startHealthServer({ host, port, health, metrics }: HealthServerOptions): Promise<HealthServer> {
  const server = createServer((request, response) => {
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
  try {
    server.listen(port, host)
    await once(server, 'listening')
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : ''
    throw new CommandError(`Cannot listen on ${host}:${port}: ${problems[code] ?? (code || errorText(error))}.`, {
      exitCode: exitCode.failed,
      hint: 'Choose another with --port or --host.',
      cause: error,
    })
  }
  // It listens on TCP.
  const { port: bound } = server.address() as AddressInfo
  return {
    url: `http://${host.includes(':') ? `[${host}]` : host}:${bound}`,
    async [Symbol.asyncDispose]() {
      const closed = once(server, 'close')
      server.close()
      server.closeAllConnections()
      await closed
    },
  }
}

const problems: Readonly<Record<string, string>> = {
  EADDRINUSE: 'the port is already in use',
  EACCES: 'permission denied',
  EADDRNOTAVAIL: 'the address does not belong to this machine',
  ENOTFOUND: 'host not found',
  EAI_AGAIN: 'the host name cannot be resolved',
}

/** Without a URL parser: no request may make it throw. A proxy sends the whole URL. */
function pathOf(target: string): string {
  return target.replace(/^https?:\/\/[^/?]*/i, '').replace(/\?.*$/s, '')
}

function isReady({ state, store }: RelayHealth): boolean {
  return state === 'running' && store === 'up'
}

/** Without the error itself: it may contain information that is not for every client of the port. */
function healthObject({
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
