import type { Scenario } from '../run/scenario.ts'

/** A probe between two steps of the processing of a message, and the effect that a kill there may have. */
export interface CrashPoint {
  /** The name as in the sources: `probe('relay.published')`. */
  readonly name: string
  /**
   * Whether events reach the broker a second time. The relay publishes one batch at a time, so its own points leave `none` or
   * `certain` duplicates; at the points of the router the state of the relay is unknown, so there are `perhaps` some.
   */
  readonly duplicates: 'none' | 'perhaps' | 'certain'
}

/** All probes between receive and ack, and between claim and settle, in processing order. A test compares all probes with the sources. */
export const crashPoints: readonly CrashPoint[] = [
  { name: 'message.received', duplicates: 'perhaps' },
  { name: 'transaction.begun', duplicates: 'perhaps' },
  { name: 'inbox.recorded', duplicates: 'perhaps' },
  { name: 'message.handled', duplicates: 'perhaps' },
  { name: 'outbox.appended', duplicates: 'perhaps' },
  { name: 'transaction.beforeCommit', duplicates: 'perhaps' },
  { name: 'transaction.afterCommit', duplicates: 'perhaps' },
  { name: 'message.beforeAck', duplicates: 'perhaps' },
  { name: 'message.afterAck', duplicates: 'perhaps' },
  { name: 'relay.claimed', duplicates: 'none' },
  { name: 'relay.published', duplicates: 'certain' },
  { name: 'relay.beforeSettle', duplicates: 'certain' },
  { name: 'relay.afterSettle', duplicates: 'none' },
]

/** All probes of a request with an idempotency key, in processing order: those of its store, and those of its transaction. */
export const idempotencyCrashPoints: readonly string[] = [
  'idempotency.claimed',
  'transaction.begun',
  'outbox.appended',
  'idempotency.worked',
  'transaction.beforeCommit',
  'transaction.afterCommit',
  'idempotency.released',
]

/** All probes of the rates of tenants: permits were taken, and no message has begun yet. */
export const rateCrashPoints: readonly string[] = ['rates.taken']

/** The probes of a process, besides those of the message that it reacts to: after its instance was loaded, and after it was saved. */
export const processCrashPoints: readonly string[] = ['process.loaded', 'process.saved']

/** The point at which a service is killed, and at which hit of that point, from 1. */
export interface Kill {
  readonly point: CrashPoint
  readonly hit: number
}

/** The program of a service, run by Node in a process of its own. It calls `runCrashable()`. */
export interface ServiceProgram {
  /** JavaScript. */
  readonly file: string
  /** Its complete environment; the crash runner adds the point of the kill. */
  readonly environment: Readonly<Record<string, string | undefined>>
}

/** The observable state at one moment. */
export interface CrashObservation {
  /** The command of each business row. The table must not have a unique key: a command that was applied twice must appear twice. */
  readonly applied: readonly string[]
  /** The command of each inbox row. */
  readonly inbox: readonly string[]
  /** The id of each event that has reached the broker, including duplicates. */
  readonly published: readonly string[]
  /** The number of commands that wait at the broker. */
  readonly waiting: number
  /** Rows of the outbox. All zero when everything is published and settled. */
  readonly outbox: { readonly ready: number; readonly waiting: number; readonly leased: number; readonly parked: number }
}

/**
 * A separate store and broker for one scenario, initially empty, and a service on them: for each command it writes one business row and
 * emits one event, in a transaction with inbox and outbox. Its relay publishes one batch at a time and has a lease of a second or two, because
 * the records of a killed relay wait that long. Disposing the world removes everything it created.
 */
export interface CrashWorld extends AsyncDisposable {
  readonly program: ServiceProgram
  /** The records per claim of the relay: few, so that there are many batches. */
  readonly batchSize: number
  /** Sends commands to the input. An id may occur more than once. Resolves when the broker has confirmed them. */
  send(ids: readonly string[]): Promise<void>
  /** The id that the event of a command must have, whichever attempt it comes from. */
  eventOf(id: string): string
  observe(): Promise<CrashObservation>
  /** Whether the broker knows that only this many services are connected: unacked messages of the others are requeued then. */
  knowsOf(services: number): Promise<boolean>
  /** Milliseconds without any progress after which a scenario fails; longer than a lease. Default: 30,000, because a busy machine starts processes slowly. */
  readonly patience?: number | undefined
}

export type OpenCrashWorld = () => Promise<CrashWorld>
export type CrashScenario = Scenario<OpenCrashWorld>
