import type { Scenario } from '../run/scenario.ts'

/** A probe between two steps of the way of a message, and what a kill there may leave behind. */
export interface CrashPoint {
  /** As the sources call it: `probe('relay.published')`. */
  readonly name: string
  /**
   * Whether events come to the broker a second time. The relay has one batch on its way at a time, so its own points leave `none` or
   * `certain`ly some; at the points of the router nobody knows where the relay is, and there `perhaps` some are.
   */
  readonly duplicates: 'none' | 'perhaps' | 'certain'
}

/** All probes between receive and ack, and between claim and settle, in the order of the way. A test compares them with the sources. */
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

/** Where a service is killed, and which time that it gets there, from 1. */
export interface Kill {
  readonly point: CrashPoint
  readonly hit: number
}

/** The program of a service, run by Node in a process of its own. It calls `runCrashable()`. */
export interface ServiceProgram {
  /** JavaScript. */
  readonly file: string
  /** All of its environment; the kit adds where it is to be killed. */
  readonly environment: Readonly<Record<string, string | undefined>>
}

/** What is there at a moment. */
export interface CrashObservation {
  /** The command of each business row. The table must not be unique: a command that was applied twice is there twice. */
  readonly applied: readonly string[]
  /** The command of each inbox row. */
  readonly inbox: readonly string[]
  /** The id of each event that came to the broker so far, duplicates included. */
  readonly published: readonly string[]
  /** How many commands wait at the broker for somebody to take them. */
  readonly waiting: number
  /** Rows of the outbox. All zero when everything is published and settled. */
  readonly outbox: { readonly ready: number; readonly waiting: number; readonly leased: number; readonly parked: number }
}

/**
 * A store and a broker of their own for one scenario, empty at first, and a service on them: for each command it writes one business row and
 * emits one event, in a transaction with inbox and outbox; its relay has one batch on its way at a time and a lease of a second or two, because
 * what a killed one held waits that long. Disposing the world removes what it made.
 */
export interface CrashWorld extends AsyncDisposable {
  readonly program: ServiceProgram
  /** How many records one claim of the relay takes: small, so that there are many batches. */
  readonly batchSize: number
  /** Puts commands into the input. An id may come more than once. Resolves when the broker has them. */
  send(ids: readonly string[]): Promise<void>
  /** The id that the event of a command must have, whichever attempt it comes from. */
  eventOf(id: string): string
  observe(): Promise<CrashObservation>
  /** Whether the broker knows that only so many services live: what the others had taken and not acked is back then. */
  knowsOf(services: number): Promise<boolean>
  /** Milliseconds without any sign of life after which a scenario gives up; longer than a lease. Default: 30,000, because a busy machine is slow to start processes. */
  readonly patience?: number | undefined
}

export type OpenCrashWorld = () => Promise<CrashWorld>
export type CrashScenario = Scenario<OpenCrashWorld>
