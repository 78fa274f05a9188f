import { abortable } from '../async/abort.ts'
import { type Backoff, FailurePause } from '../async/backoff.ts'
import type { Logger } from '../ports/observability.ts'
import type { Runtime } from '../ports/runtime.ts'

export interface SourceHealthOptions {
  readonly backoff: Backoff
  readonly runtime: Runtime
  readonly logger: Logger
  /** Added to both log entries, such as `{ queue }`. */
  readonly fields: Readonly<Record<string, unknown>>
  /** The warning when messages stop coming. */
  readonly lost: string
  /** The entry when they come again. */
  readonly restored: string
}

/** Logs an outage once when it begins and once when it ends, and waits between the attempts, longer each time. */
export class SourceHealth {
  readonly #options: SourceHealthOptions
  readonly #pause: FailurePause
  #isDown = false

  constructor(options: SourceHealthOptions) {
    this.#options = options
    this.#pause = new FailurePause(options)
  }

  /** Messages come again. The pauses start from the beginning only after {@link steady}. */
  restored(): void {
    const { logger, fields, restored } = this.#options
    if (this.#isDown) logger.info(fields, restored)
    this.#isDown = false
  }

  /** The connection has proved itself: the next failure is the first one in a row. */
  steady(): void {
    this.#pause.succeeded()
  }

  /** Logs the failure, unless the outage is known, and waits. */
  async failed(reason: unknown, signal: AbortSignal): Promise<void> {
    const { logger, fields, lost } = this.#options
    if (!this.#isDown) logger.warn({ err: reason, ...fields }, lost)
    this.#isDown = true
    await this.wait(signal)
  }

  /** Waits as after a failure, and logs nothing. */
  async wait(signal: AbortSignal): Promise<void> {
    await this.#pause.failed(signal)
  }
}

/** A connection to the broker through which messages come. */
export interface Connection {
  /** Resolves, with the reason, when no more messages come. */
  readonly ended: Promise<unknown>
}

/** The state of a reconnecting iteration when a connection has failed. */
export interface FailureState {
  /** Whether it was the opening that failed; otherwise the connection was open. */
  readonly opening: boolean
  /** Whether a connection was ever open, this one included. */
  readonly wasOpen: boolean
  /** Whether a connection was ever open for ten seconds, this one included. */
  readonly wasSteady: boolean
}

export interface ReconnectOptions extends SourceHealthOptions {
  /**
   * The error that ends the source, for a reason that no further attempt can change, such as missing permissions; `undefined` to try again. A resource that is missing
   * at the start is most likely a mistake in the configuration; later on it may come back. Default: always try again.
   */
  fatalError?(reason: unknown, state: FailureState): Error | undefined
}

// A connection that was open for this long, in milliseconds, worked: its end is a new failure, not the next one in a row.
const steadyAfter = 10_000

/** Keeps a connection open until the signal is aborted: opens another one when it is lost, after a pause. Rejects with what `fatalError` returns. */
export async function reconnect(open: () => Promise<Connection>, options: ReconnectOptions, signal: AbortSignal): Promise<void> {
  const { runtime } = options
  const health = new SourceHealth(options)
  let wasOpen = false
  let wasSteady = false
  while (!signal.aborted) {
    let opening = true
    let reason: unknown
    try {
      const connection = await open()
      const openedAt = runtime.monotonic()
      opening = false
      wasOpen = true
      health.restored()
      reason = await abortable(connection.ended, signal)
      if (runtime.monotonic() - openedAt >= steadyAfter) {
        wasSteady = true
        health.steady()
      }
    } catch (error) {
      reason = error
    }
    if (signal.aborted) return
    const fatal = options.fatalError?.(reason, { opening, wasOpen, wasSteady })
    if (fatal !== undefined) throw fatal
    await health.failed(reason, signal)
  }
}
