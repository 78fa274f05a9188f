import { allowEverybody, createDashboard, type Dashboard, type DoctorCheck } from '@ackord/dashboard'
import type { OutboxAdmin } from '@ackord/outbox'
import type { Check } from '../doctor/check.ts'
import { checkStore } from '../doctor/store-checks.ts'
import { usageError } from '../output/errors.ts'
import type { Session } from '../session.ts'
import { openStoreOf, type StoreOptions } from '../stores/open-store.ts'
import type { Store } from '../stores/store.ts'
import { type HttpServer, type ServerAddress, startHttpServer } from './http-server.ts'
import { TokenGate } from './token-gate.ts'

export interface DashboardOptions extends Omit<StoreOptions, 'store'>, ServingOptions {
  /** URLs, each alone or as `name=url`. */
  readonly stores: readonly string[]
}

export interface ServingOptions extends ServerAddress {
  /** Default: one that is valid once. */
  readonly token?: string | undefined
  readonly readOnly?: boolean | undefined
  readonly traceUrl?: string | undefined
}

/** Opens the stores, and serves their dashboard until it is disposed. */
export async function serveDashboard(session: Session, options: DashboardOptions): Promise<HttpServer> {
  const { stores: urls, host, port, token, readOnly, traceUrl, ...location } = options
  if (token === undefined && !isLoopback(host))
    throw usageError(
      `--host ${host} can be reached from other machines.`,
      'Add --token, or listen on 127.0.0.1 behind a proxy that signs users in.',
    )
  const stores = new Map<string, Store>()
  const closeStores = async () => {
    for (const store of stores.values()) await store[Symbol.asyncDispose]()
  }
  try {
    for (const [name, url] of named(urls)) stores.set(name, await openStoreOf({ ...location, store: url }, session))
    const served = await serveStores(session, stores, { host, port, token, readOnly, traceUrl })
    return {
      url: served.url,
      async [Symbol.asyncDispose]() {
        await served[Symbol.asyncDispose]()
        await closeStores()
      },
    }
  } catch (error) {
    await closeStores()
    throw error
  }
}

/** Serves the dashboard of open stores until it is disposed. The `url` has the token in it. */
export async function serveStores(
  session: Session,
  stores: ReadonlyMap<string, Store>,
  { host, port, token, readOnly = false, traceUrl }: ServingOptions,
): Promise<HttpServer> {
  const gate = new TokenGate(token)
  const dashboard = dashboardOf(stores, gate, session, { readOnly, traceUrl })
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
  options: { readonly readOnly: boolean; readonly traceUrl: string | undefined },
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

/** By the given names, or by the kinds of the stores: `postgres`, `redis`, `redis-2`. */
function named(urls: readonly string[]): ReadonlyMap<string, string> {
  const byName = new Map<string, string>()
  for (const text of urls) {
    const [, given, url = text] = /^([a-z0-9][a-z0-9_.-]*)=(.+)$/i.exec(text) ?? []
    const kind = given ?? url.slice(0, Math.max(0, url.indexOf(':')))
    if (given !== undefined && byName.has(given)) throw usageError(`--store has two stores with the name '${given}'.`)
    let name = kind
    for (let number = 2; byName.has(name); number += 1) name = `${kind}-${number}`
    byName.set(name, url)
  }
  return byName
}

async function diagnose(stores: ReadonlyMap<string, Store>): Promise<readonly DoctorCheck[]> {
  const checks: DoctorCheck[] = []
  for (const [store, opened] of stores) {
    const found = await checkStore(opened, 'none')
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
