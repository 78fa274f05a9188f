import { AckordError, type Backoff, type DeadLetter, type Logger, type PublishResult, type Runtime, toError } from '@ackord/core'
import { abortable, checkResultCount, deadLetterOf } from '@ackord/core/internal'
import { backoffDelay } from './delay.ts'
import type { RelayObserver } from './relay-observer.ts'
import { withTimeLimit } from './time-limit.ts'
import type { Verdict } from './verdict.ts'

export interface DeadLettersOptions {
  readonly deadLetter: DeadLetter
  /** Milliseconds for which one call may take. */
  readonly timeout: number
  /** How long a dead letter is left alone after it hung, by how often in a row. */
  readonly backoff: Backoff
  readonly runtime: Runtime
  readonly logger: Logger
  readonly observer: RelayObserver
}

/**
 * Sends copies of records that are about to be parked: with their own ids, in one call, once. What the dead letter does not take is parked
 * all the same, because the row is what counts; its error then says that there is no copy. A dead letter that does not answer in time is not asked
 * again for a while, or every batch with a bad record in it would take that long.
 */
export class DeadLetters {
  readonly #options: DeadLettersOptions
  #failing = false
  #hung = 0
  #notBefore = 0

  constructor(options: DeadLettersOptions) {
    this.#options = options
  }

  /** Why there is no copy of a record, in their order; `undefined` if there is one. Rejects only if the signal is aborted. */
  async send(parking: readonly Verdict[], giveUp: AbortSignal): Promise<readonly (Error | undefined)[]> {
    const results = await this.#publish(parking, giveUp)
    const failures = results.map((result) => (result.ok ? undefined : toError(result.error)))
    const records = parking.map(({ record }) => record)
    const error = failures.find((failure) => failure !== undefined)
    this.#options.observer.deadLetters(
      records.filter((_, index) => failures[index] === undefined),
      records.filter((_, index) => failures[index] !== undefined),
      error,
    )
    this.#report(error)
    return failures
  }

  async #publish(parking: readonly Verdict[], giveUp: AbortSignal): Promise<readonly PublishResult[]> {
    const { deadLetter, timeout, runtime } = this.#options
    const { publisher, destination } = deadLetter
    const refuse = (error: Error) => parking.map((): PublishResult => ({ ok: false, error }))
    if (runtime.now() < this.#notBefore) return refuse(hanging(destination))
    const late = tooLong(destination, timeout)
    try {
      const letters = parking.map(({ record, error }) =>
        deadLetterOf(record.message, error, runtime).withAttributes({ deadletterdestination: record.destination }),
      )
      const results = await withTimeLimit(
        runtime,
        timeout,
        () => late,
        (timedOut) => abortable(publisher.publish(destination, letters, { signal: AbortSignal.any([timedOut, giveUp]) }), giveUp),
      )
      checkResultCount(results, letters.length, destination)
      this.#hung = 0
      return results
    } catch (error) {
      giveUp.throwIfAborted()
      if (error === late) this.#leaveAlone()
      return refuse(toError(error))
    }
  }

  #leaveAlone(): void {
    const { backoff, runtime } = this.#options
    this.#hung += 1
    this.#notBefore = runtime.now() + backoffDelay(backoff, this.#hung, runtime)
  }

  /** A line for each end of an outage. */
  #report(error: Error | undefined): void {
    const { deadLetter, logger } = this.#options
    const { destination } = deadLetter
    const failing = error !== undefined
    if (failing === this.#failing) return
    this.#failing = failing
    const text = 'The dead letter did not take copies of parked records. They are parked all the same, and their errors say so.'
    if (failing) logger.warn({ destination, err: error }, text)
    else logger.info({ destination }, 'The dead letter takes copies of parked records again.')
  }
}

function tooLong(destination: string, timeout: number): AckordError {
  return new AckordError('ACKORD_PUBLISH_FAILED', `The dead letter '${destination}' did not confirm within ${timeout} ms.`)
}

function hanging(destination: string): AckordError {
  return new AckordError(
    'ACKORD_PUBLISH_FAILED',
    `The dead letter '${destination}' did not answer a moment ago and was not asked again yet.`,
  )
}
