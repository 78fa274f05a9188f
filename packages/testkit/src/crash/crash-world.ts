import type { Scenario } from '../scenario.ts'

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
  /** Milliseconds without any sign of life after which a scenario gives up; longer than a lease. Default: 10,000. */
  readonly patience?: number | undefined
}

export type OpenCrashWorld = () => Promise<CrashWorld>
export type CrashScenario = Scenario<OpenCrashWorld>
