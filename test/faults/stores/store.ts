import type { Middleware } from '@ackord/core'
import type { OutboxStore } from '@ackord/outbox'
import type { FaultProxy } from '@ackord/testkit'
import type { CrashObservation } from '@ackord/testkit/suites'
import type { Recognise } from '../wire.ts'

export type StoreObservation = Pick<CrashObservation, 'applied' | 'inbox' | 'outbox'>

/** What a service keeps its data in, for one scenario; removed at the end. */
export interface Store extends AsyncDisposable {
  /** Transaction, inbox and outbox. */
  readonly middleware: Middleware
  readonly outbox: OutboxStore
  /** The business write of a handler. A command that is saved twice is there twice. */
  save(id: string): Promise<unknown>
  /** By a way of its own, past every fault. Rejects while the server is away. */
  observe(): Promise<StoreObservation>
}

/** Connections of the service's pool in the hands of a stranger. */
export interface Exhaustion {
  /** How many of the service wait for one. */
  waiting(): number
  free(): void
}

/** What is seen on the way to a server: the first statement of a handler's transaction, its last one, the relay's outcomes. */
export type Moment = 'begin' | 'commit' | 'settle'

/** A store on a server. The service reaches it by the proxy. */
export interface ServerStore extends Store {
  readonly proxy: FaultProxy
  recognise(moment: Moment): Recognise
  /** The server ends the service's connections. Gives how many. */
  endConnections(): Promise<number>
  /** Kills a server of its own and starts it again on what it had. */
  restart(): Promise<void>
  /** A stranger takes all connections of the pool, if there is one. */
  exhaust?(): Promise<Exhaustion>
}

export interface ServerStoreOptions {
  /** Whether it is a server of its own, which may be killed. Default: false. */
  readonly own?: boolean | undefined
  /** Of the service's pool. Default: 10. */
  readonly connections?: number | undefined
}

export interface ServerStoreKind {
  readonly name: string
  /** Whether a commit without an answer is an error of the handler. If not, the store asks what became of it. */
  readonly tellsUnknownCommits: boolean
  open(options?: ServerStoreOptions): Promise<ServerStore>
}

/** Kills a server of its own and starts it again on what it had. */
export async function restart(server: { kill(): Promise<unknown>; restart(): Promise<unknown> } | undefined): Promise<void> {
  if (server === undefined) throw new Error('It is not ours to kill.')
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
