import type { Middleware } from '@ackord/core'
import type { OutboxStore } from '@ackord/outbox'
import type { FaultProxy } from '@ackord/testkit'
import type { CrashObservation } from '@ackord/testkit/suites'
import type { Recognise } from '../wire.ts'

export type StoreObservation = Pick<CrashObservation, 'applied' | 'inbox' | 'outbox'>

/** The store of a service for one scenario; removed at the end. */
export interface Store extends AsyncDisposable {
  /** The middleware for transaction, inbox and outbox. */
  readonly middleware: Middleware
  readonly outbox: OutboxStore
  /** The business write of a handler. A command that is saved twice appears twice. */
  save(id: string): Promise<unknown>
  /** Reads over a separate connection that bypasses every fault. Rejects while the server is down. */
  observe(): Promise<StoreObservation>
}

/** Connections of the service's pool that the test holds. */
export interface Exhaustion {
  /** The number of requests of the service that wait for a connection. */
  waiting(): number
  free(): void
}

/** The traffic in which a fault can be placed: the first statement of a handler's transaction, its last one, the settlements of the relay. */
export type Moment = 'begin' | 'commit' | 'settle'

/** A store on a server. The service reaches it through the proxy. */
export interface ServerStore extends Store {
  readonly proxy: FaultProxy
  recognise(moment: Moment): Recognise
  /** Makes the server close the service's connections. Resolves to their number. */
  endConnections(): Promise<number>
  /** Kills the dedicated server and restarts it with its data. */
  restart(): Promise<void>
  /** Takes all connections of the pool, for stores with a pool. */
  exhaust?(): Promise<Exhaustion>
}

export interface ServerStoreOptions {
  /** Whether to start a dedicated server, which may be killed. Default: false. */
  readonly own?: boolean | undefined
  /** The size of the service's pool. Default: 10. */
  readonly connections?: number | undefined
}

export interface ServerStoreKind {
  readonly name: string
  /** Whether an unanswered commit is an error of the handler. If false, the store looks up the outcome. */
  readonly tellsUnknownCommits: boolean
  open(options?: ServerStoreOptions): Promise<ServerStore>
}

/** Kills the dedicated server and restarts it with its data. */
export async function restart(server: { kill(): Promise<unknown>; restart(): Promise<unknown> } | undefined): Promise<void> {
  if (server === undefined) throw new Error('The server is shared and cannot be killed.')
  await server.kill()
  await server.restart()
}

/** Sums over all destinations. */
export async function outboxStates(admin: {
  stats(): Promise<{ readonly destinations: readonly StoreObservation['outbox'][] }>
}): Promise<StoreObservation['outbox']> {
  const { destinations } = await admin.stats()
  const sum = (state: keyof StoreObservation['outbox']) => destinations.reduce((total, one) => total + one[state], 0)
  return { ready: sum('ready'), waiting: sum('waiting'), leased: sum('leased'), parked: sum('parked') }
}
