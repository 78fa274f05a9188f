import { allowEverybody, createDashboard, type Dashboard, type DeadLetterPort, type DoctorCheck } from '@ackord/dashboard'
import type { OutboxAdmin } from '@ackord/outbox'
import type { Check } from '../doctor/check.ts'
import { checkStore } from '../doctor/store-checks.ts'
import { usageError } from '../output/errors.ts'
import type { Session } from '../session.ts'
import { namedUrls } from '../settings/named-urls.ts'
import { openStoreOf, type StoreOptions } from '../stores/open-store.ts'
import type { Store } from '../stores/store.ts'
import { type HttpServer, type ServerAddress, startHttpServer } from './http-server.ts'
import { type DeadLetterOptions, openDeadLetters } from './open-dead-letters.ts'
import { TokenGate } from './token-gate.ts'

export interface DashboardOptions extends Omit<StoreOptions, 'store'>, ServingOptions, DeadLetterOptions {
  /** URLs, each alone or as `name=url`. */
  readonly stores: readonly string[]
}

export interface ServingOptions extends ServerAddress {
  /** Default: one that is valid once. */
  readonly token?: string | undefined
  readonly readOnly?: boolean | undefined
  readonly traceUrl?: string | undefined
}

/** Opens the stores and brokers, and serves their dashboard until it is disposed. */
export async function serveDashboard(session: Session, options: DashboardOptions): Promise<HttpServer> {
  const { stores: urls, brokers, deadLetters, group, host, port, token, readOnly, traceUrl, ...location } = options
  if (token === undefined && !isLoopback(host))
    throw usageError(
      `--host ${host} can be reached from other machines.`,
      'Add --token, or listen on 127.0.0.1 behind a proxy that signs users in.',
    )
  const opened: AsyncDisposable[] = []
  const closeAll = async () => {
    for (const each of opened.toReversed()) await each[Symbol.asyncDispose]()
  }
  try {
    const stores = new Map<string, Store>()
    for (const [name, url] of namedUrls('--store', urls)) {
      const store = await openStoreOf({ ...location, store: url }, session)
      opened.push(store)
      stores.set(name, store)
    }
    const letters = await openDeadLetters(session, { brokers, deadLetters, group })
    opened.push(letters)
    const served = await serveStores(session, stores, { host, port, token, readOnly, traceUrl }, letters.ports)
    opened.push(served)
    return { url: served.url, [Symbol.asyncDispose]: closeAll }
  } catch (error) {
    await closeAll()
    throw error
  }
}

/** Serves the dashboard of open stores until it is disposed. The `url` has the token in it. */
export async function serveStores(
  session: Session,
  stores: ReadonlyMap<string, Store>,
  { host, port, token, readOnly = false, traceUrl }: ServingOptions,
  deadLetters: Readonly<Record<string, DeadLetterPort>> = {},
): Promise<HttpServer> {
  const gate = new TokenGate(token)
  const dashboard = dashboardOf(stores, gate, session, { readOnly, traceUrl, deadLetters })
  const server = await startHttpServer({ host, port }, (request, response) => {
    if (!gate.exchange(request, response)) dashboard.node(request, response)
  })
  return {
    url: `${server.url}/?token=${encodeURIComponent(gate.token)}`,
    async [Symbol.asyncDispose]() {
      await dashboard.close()
      await server[Symbol.asyncDispose]()
    },
  }
}

function dashboardOf(
  stores: ReadonlyMap<string, Store>,
  gate: TokenGate,
  { output }: Session,
  options: {
    readonly readOnly: boolean
    readonly traceUrl: string | undefined
    readonly deadLetters: Readonly<Record<string, DeadLetterPort>>
  },
): Dashboard {
  const logger = output.logger()
  const everybody = allowEverybody()
  return createDashboard({
    ...options,
    stores: Object.fromEntries([...stores].map(([name, store]): [string, OutboxAdmin] => [name, store.outbox({ logger })])),
    inboxes: Object.fromEntries([...stores].map(([name, store]) => [name, store.inbox(logger)])),
    doctor: () => diagnose(stores),
    authorize: (request, incoming) => (gate.admits(request.headers) ? everybody(request, incoming) : undefined),
    logger,
  })
}

function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || /^127(\.\d{1,3}){3}$/.test(host)
}

async function diagnose(stores: ReadonlyMap<string, Store>): Promise<readonly DoctorCheck[]> {
  const checks: DoctorCheck[] = []
  for (const [store, opened] of stores) {
    const found = await checkStore(opened)
    checks.push(
      ...found.checks.map(({ name, state, text, statements = [] }) => ({
        store,
        title: name,
        result: results[state],
        text: [text, ...statements].join('\n'),
      })),
    )
  }
  return checks
}

const results: Readonly<Record<Check['state'], DoctorCheck['result']>> = {
  ok: 'ok',
  warning: 'warning',
  problem: 'failed',
  unknown: 'unknown',
}
