import type { Logger } from '@ackord/core'

/** The error of a step of a claim. In an object, because a step may fail with `undefined`. */
export interface StepFailure {
  readonly error: unknown
}

/** Failed steps of claims. The first one is logged, and the next one after a claim without a failure: while Redis is down, every claim fails. */
export class ClaimFailures {
  readonly #logger: Logger
  #hasWarned = false

  constructor(logger: Logger) {
    this.#logger = logger
  }

  warn(error: unknown): void {
    const text = 'Some records of an outbox could not be claimed. They are tried again; the others are published.'
    if (!this.#hasWarned) this.#logger.warn({ err: error }, text)
    this.#hasWarned = true
  }

  /**
   * The result of a claim of which a step may have failed. Records that were taken before a step failed are leased by now: not returned, they would wait until
   * the lease has expired. Throws the error if there are none.
   */
  recordsOf<R>(records: readonly R[], failure: StepFailure | undefined): readonly R[] {
    if (failure !== undefined && records.length === 0) throw failure.error
    if (failure !== undefined) this.warn(failure.error)
    else this.#hasWarned = false
    return records
  }
}

export async function failureOf(step: Promise<void>): Promise<StepFailure | undefined> {
  try {
    await step
    return undefined
  } catch (error) {
    return { error }
  }
}
