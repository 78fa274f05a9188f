import type { IncomingMessage, RequestListener } from 'node:http'
import { type Authorize, allowEverybody, createDashboard, type Dashboard, type DeadLetterPort } from '@ackord/dashboard'
import type { OutboxAdmin } from '@ackord/outbox'
import { usageError } from '../output/errors.ts'
import type { Session } from '../session.ts'
import { namedUrls } from '../settings/named-urls.ts'
import { openStoreOf, type StoreOptions } from '../stores/open-store.ts'
import type { Store } from '../stores/store.ts'
import { diagnose } from './dashboard-doctor.ts'
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
  /** Who uses it, for the audit. Default: unknown. */
  readonly by?: string | undefined
  /** The header in which a proxy names its user, for the audit; requires `token`, which only the proxy may know. Default: `by` does everything. */
  readonly userHeader?: string | undefined
  readonly readOnly?: boolean | undefined
  readonly traceUrl?: string | undefined
}

/** Opens the stores and brokers, and serves their dashboard until it is disposed. */
export async function serveDashboard(session: Session, options: DashboardOptions): Promise<HttpServer> {
  const {
    stores: urls,
    brokers,
    deadLetters,
    group,
    deliveryLimit,
    host,
    port,
    token,
    by,
    userHeader,
    readOnly,
    traceUrl,
    ...location
  } = options
  if (token === undefined && !isLoopback(host))
    throw usageError(
      `--host ${host} can be reached from other machines.`,
      'Add --token, or listen on 127.0.0.1 behind a proxy that signs users in.',
    )
  if (userHeader !== undefined && token === undefined)
    throw usageError(
      '--user-header requires --token.',
      'The proxy sends it as `Authorization: Bearer <token>`: otherwise everybody who reaches the port could choose a name.',
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
    const letters = await openDeadLetters(session, { brokers, deadLetters, group, deliveryLimit })
    opened.push(letters)
    const serving = { host, port, token, by, userHeader, readOnly, traceUrl }
    const served = await serveStores(session, stores, serving, { deadLetters: letters.ports, brokers: namedUrls('--broker', brokers) })
    opened.push(served)
    return { url: served.url, [Symbol.asyncDispose]: closeAll }
  } catch (error) {
    await closeAll()
    throw error
  }
}

interface ServedBrokers {
  readonly deadLetters?: Readonly<Record<string, DeadLetterPort>> | undefined
  /** The URLs of brokers that the doctor checks, by name. */
  readonly brokers?: ReadonlyMap<string, string> | undefined
}

/** Serves the dashboard of open stores until it is disposed. The `url` has the token in it. */
export async function serveStores(
  session: Session,
  stores: ReadonlyMap<string, Store>,
  { host, port, token, by = 'unknown', userHeader, readOnly = false, traceUrl }: ServingOptions,
  { deadLetters = {}, brokers = new Map() }: ServedBrokers = {},
): Promise<HttpServer> {
  const gate = new TokenGate(token)
  const everybody = allowEverybody()
  const authorize: Authorize = async (request, incoming) => {
    if (incoming === undefined || !gate.admits(incoming)) return undefined
    const name = userHeader === undefined ? by : userIn(incoming, userHeader)
    const identity = await everybody(request, incoming)
    return name === undefined || identity === undefined ? undefined : { ...identity, name }
  }
  const doctor = () => diagnose(session, stores, brokers)
  const dashboard = dashboardOf(stores, authorize, session, { readOnly, traceUrl, deadLetters, doctor })
  const serve: RequestListener = (request, response) => {
    if (!gate.exchange(request, response)) dashboard.node(request, response)
  }
  const server = await startHttpServer({ host, port }, token === undefined ? onlyFromLoopback(serve) : serve)
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
  authorize: Authorize,
  { output }: Session,
  options: {
    readonly readOnly: boolean
    readonly traceUrl: string | undefined
    readonly deadLetters: Readonly<Record<string, DeadLetterPort>>
    readonly doctor: () => ReturnType<typeof diagnose>
  },
): Dashboard {
  const logger = output.logger()
  return createDashboard({
    ...options,
    stores: Object.fromEntries([...stores].map(([name, store]): [string, OutboxAdmin] => [name, store.outbox({ logger })])),
    inboxes: Object.fromEntries([...stores].map(([name, store]) => [name, store.inbox(logger)])),
    authorize,
    logger,
  })
}

/**
 * Refuses requests for another name than the loopback's. A page of any site can make a browser send requests to this port by a name of its own that it has pointed at 127.0.0.1
 * (DNS rebinding), and for the browser they are of the same origin.
 */
function onlyFromLoopback(serve: RequestListener): RequestListener {
  return (request, response) => {
    const address = `http://${request.headers.host}`
    const name = URL.canParse(address) ? new URL(address).hostname.replace(/^\[(.*)\]$/, '$1') : ''
    if (isLoopback(name)) return serve(request, response)
    const text = 'Use the address that the command has printed. Under another name, or behind a proxy, the dashboard requires --token.'
    response.writeHead(403, { 'content-type': 'text/plain; charset=utf-8' }).end(`${text}\n`)
  }
}

const maxNameLength = 200

/** The user that the proxy names. `undefined` if the header is missing, or occurs twice: one of them would be from the client. */
function userIn({ headersDistinct }: IncomingMessage, header: string): string | undefined {
  const [name = '', ...others] = headersDistinct[header.toLowerCase()] ?? []
  return name === '' || name.length > maxNameLength || others.length > 0 ? undefined : name
}

function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || /^127(\.\d{1,3}){3}$/.test(host)
}
