import type { Logger, Runtime } from '@ackord/core'
import type { LogStatements } from '../contract/log-statements.ts'

/** Milliseconds between two looks at the parts of the log. */
const interval = 10_000

/** Rotates the log now and then, in the background. It outlives the readers of a store, each of which ends when the lease is lost. */
export class LogRotation {
  readonly #statements: Pick<LogStatements, 'rotate'>
  readonly #runtime: Runtime
  readonly #logger: Logger
  /** By the runtime's clock; `undefined` until the log was opened. */
  #last: number | undefined
  #hasRotated = false
  #running: Promise<void> | undefined

  constructor(statements: Pick<LogStatements, 'rotate'>, { runtime, logger }: { readonly runtime: Runtime; readonly logger: Logger }) {
    this.#statements = statements
    this.#runtime = runtime
    this.#logger = logger
  }

  /** The log was opened. */
  begin(): void {
    this.#last ??= this.#runtime.monotonic()
  }

  rotateIfDue(): void {
    if (!this.#isDue || this.#running !== undefined) return
    this.#running = this.#rotate().finally(() => {
      this.#running = undefined
    })
  }

  /** After the relay has left. A relay that runs for a few seconds at a time would never rotate the log otherwise. */
  async end(): Promise<void> {
    await this.#running
    if (this.#last !== undefined && (this.#isDue || !this.#hasRotated)) await this.#rotate()
  }

  get #isDue(): boolean {
    return this.#last !== undefined && this.#runtime.monotonic() - this.#last >= interval
  }

  async #rotate(): Promise<void> {
    this.#last = this.#runtime.monotonic()
    this.#hasRotated = true
    await this.#statements
      .rotate()
      .catch((error: unknown) =>
        this.#logger.warn({ err: error }, 'The log of the outbox could not be rotated. It grows until that succeeds.'),
      )
  }
}
