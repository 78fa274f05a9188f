import { Message } from '@ackord/core'
import { MemoryOutboxStore, type OutboxAdmin, type Outcome } from '@ackord/outbox'
import { type RecordingLogger, recordingLogger, VirtualRuntime } from '@ackord/testkit'
import {
  type ApiError,
  createDashboard,
  type Dashboard,
  type DashboardOptions,
  type Job,
  type OperatorAction,
  type Right,
  type Session,
} from '../../src/index.ts'

export const everyRight: readonly Right[] = ['view', 'payload', 'rearm', 'edit', 'discard', 'pause']

export interface NewRecord {
  readonly id: string
  readonly destination?: string
  readonly type?: string
  readonly key?: string
  readonly data?: string | Uint8Array
  readonly attributes?: Readonly<Record<string, string | number | boolean | Date | Uint8Array>>
  readonly delay?: number
}

/** Stores records in the outbox. */
export async function append(store: MemoryOutboxStore, ...records: readonly NewRecord[]): Promise<void> {
  const transaction = store.begin()
  await store.append(
    transaction,
    records.map(({ id, destination = 'orders', type = 'order.placed', key, data = '{"total":7}', attributes = {}, delay }) => ({
      destination,
      delay,
      message: new Message(typeof data === 'string' ? new TextEncoder().encode(data) : data, {
        id,
        type,
        source: '/shop',
        specversion: '1.0',
        time: '2026-01-01T00:00:00Z',
        ...(key !== undefined && { partitionkey: key }),
        ...attributes,
      }),
    })),
  )
  transaction.commit()
}

/** Claims all records that are ready, and settles them. */
export async function settle(
  store: MemoryOutboxStore,
  outcome: { readonly result: 'published' } | { readonly result: 'failed' | 'parked'; readonly error?: string; readonly cause?: string },
): Promise<void> {
  const claimed = await store.claim({ limit: 100_000, lease: 60_000 })
  const outcomes = claimed.map(({ id, token }): Outcome => {
    if (outcome.result === 'published') return { id, token, result: 'published' }
    const { error = 'Connection refused.', cause = 'ECONNREFUSED' } = outcome
    return outcome.result === 'parked'
      ? { id, token, result: 'parked', error, cause }
      : { id, token, result: 'failed', error, cause, retryAfter: 60_000 }
  })
  await store.settle(outcomes)
}

export async function appendParked(store: MemoryOutboxStore, ...records: readonly NewRecord[]): Promise<void> {
  await append(store, ...records)
  await settle(store, { result: 'parked' })
}

export interface Answer<T> {
  readonly status: number
  readonly headers: Headers
  readonly body: T
}

export interface World extends AsyncDisposable {
  readonly runtime: VirtualRuntime
  readonly store: MemoryOutboxStore
  readonly dashboard: Dashboard
  readonly logger: RecordingLogger
  readonly actions: readonly OperatorAction[]
  /** Sends a request as somebody else: a name, and rights. */
  as(name: string, rights: readonly Right[]): Client
  readonly client: Client
}

interface Client {
  get<T = unknown>(path: string, headers?: Readonly<Record<string, string>>): Promise<Answer<T>>
  post<T = Job>(path: string, body: unknown, headers?: Readonly<Record<string, string | undefined>>): Promise<Answer<T>>
  session(): Promise<Session>
}

const origin = 'http://dashboard.test'

/** A dashboard over a store in memory. Users are named in headers that only these tests have. */
export async function openWorld(options: Partial<DashboardOptions> & { readonly retain?: boolean } = {}): Promise<World> {
  const { retain = true, ...more } = options
  const runtime = new VirtualRuntime()
  const logger = recordingLogger()
  const store = new MemoryOutboxStore({ runtime, retain })
  const actions: OperatorAction[] = []
  const dashboard = createDashboard({
    stores: { shop: store },
    authorize: ({ headers }) => {
      const name = headers.get('x-user')
      return name === null ? undefined : { name, rights: (headers.get('x-rights') ?? '').split(' ').filter(Boolean) as Right[] }
    },
    onAction: (action) => void actions.push(action),
    runtime,
    logger,
    ...more,
  })
  const as = (name: string, rights: readonly Right[]) => clientOf(dashboard, { 'x-user': name, 'x-rights': rights.join(' ') })
  return {
    runtime,
    store,
    dashboard,
    logger,
    actions,
    as,
    client: as('ann', everyRight),
    [Symbol.asyncDispose]: () => dashboard.close(),
  }
}

function clientOf(dashboard: Dashboard, identity: Readonly<Record<string, string>>): Client {
  const send = async <T>(path: string, init: RequestInit): Promise<Answer<T>> => {
    const response = await dashboard.fetch(new Request(`${origin}/api/${path}`, init))
    const text = await response.text()
    return { status: response.status, headers: response.headers, body: text === '' ? undefined : JSON.parse(text) }
  }
  const client: Client = {
    get: (path, headers = {}) => send(path, { headers: { ...identity, ...headers } }),
    async post(path, body, headers = {}) {
      const { csrf } = await client.session()
      const all = { ...identity, 'content-type': 'application/json', origin, 'x-ackord-csrf': csrf, ...headers }
      const defined = Object.entries(all).filter((entry): entry is [string, string] => entry[1] !== undefined)
      const content = typeof body === 'string' || body instanceof Uint8Array ? body : JSON.stringify(body)
      return await send(path, { method: 'POST', headers: defined, body: content as string })
    },
    session: async () => (await client.get<Session>('session')).body,
  }
  return client
}

/** The code of a refused request. */
export function codeOf({ status, body }: Answer<unknown>): string {
  return `${status} ${(body as ApiError).error?.code}`
}

/** The store with these functions instead of its own; `undefined` removes one. */
export function withFunctions(
  store: OutboxAdmin,
  functions: { readonly [Name in keyof OutboxAdmin]?: OutboxAdmin[Name] | undefined },
): OutboxAdmin {
  return new Proxy(store, {
    get(target, name) {
      if (Object.hasOwn(functions, name)) return functions[name as keyof OutboxAdmin]
      const value: unknown = Reflect.get(target, name)
      return typeof value === 'function' ? value.bind(target) : value
    },
  })
}
