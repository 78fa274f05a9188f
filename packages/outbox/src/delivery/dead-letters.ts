import {
  AckordError,
  type Attributes,
  type Backoff,
  type DeadLetter,
  type Logger,
  type PublishResult,
  type Runtime,
  toError,
} from '@ackord/core'
import { abortable, checkResultCount, deadLetterForms, deadLetterTooLate, redactDestination, withTimeLimit } from '@ackord/core/internal'
import { backoffDelay, type Verdict } from './outcomes.ts'
import type { RelayObserver } from './relay-observer.ts'

export interface DeadLettersOptions {
  readonly deadLetter: DeadLetter
  /** The time limit of one call, in milliseconds. */
  readonly timeout: number
  /** How long a dead letter is paused after a time-out, by the number of consecutive time-outs. */
  readonly backoff: Backoff
  readonly runtime: Runtime
  readonly logger: Logger
  readonly observer: RelayObserver
}

/**
 * Sends copies of records that are about to be parked: with their own ids, in one call, once. A record whose copy the dead letter does not accept is
 * parked nevertheless, because the stored record is authoritative; its error then says that there is no copy. A dead letter that timed out is paused
 * for a while; otherwise every batch with a bad record would take that long.
 */
export class DeadLetters {
  readonly #options: DeadLettersOptions
  #failing = false
  #hung = 0
  #notBefore = -Infinity

  constructor(options: DeadLettersOptions) {
    this.#options = options
  }

  /** For each record, in order, why there is no copy of it; `undefined` if there is one. Rejects only if the signal is aborted. */
  async send(parking: readonly Verdict[], cancelled: AbortSignal): Promise<readonly (Error | undefined)[]> {
    const results = await this.#publish(parking, cancelled)
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

  async #publish(parking: readonly Verdict[], cancelled: AbortSignal): Promise<readonly PublishResult[]> {
    const { deadLetter, timeout, runtime } = this.#options
    const { destination } = deadLetter
    const refuse = (error: Error) => parking.map((): PublishResult => ({ ok: false, error }))
    if (runtime.monotonic() < this.#notBefore) return refuse(recentlyTimedOut(destination))
    const late = deadLetterTooLate(destination, timeout)
    try {
      const results = await withTimeLimit(
        runtime,
        timeout,
        () => late,
        (timedOut) => this.#publishForms(parking, AbortSignal.any([timedOut, cancelled]), cancelled),
      )
      this.#hung = 0
      return results
    } catch (error) {
      cancelled.throwIfAborted()
      if (error === late) this.#pauseAfterTimeout()
      return refuse(toError(error))
    }
  }

  /** Copies that the dead letter rejects permanently are sent again in a smaller form, with one call per form. */
  async #publishForms(parking: readonly Verdict[], signal: AbortSignal, cancelled: AbortSignal): Promise<readonly PublishResult[]> {
    const { deadLetter, runtime } = this.#options
    const { publisher, destination } = deadLetter
    const results: PublishResult[] = []
    let copies = parking.map((verdict, index) => ({
      index,
      forms: deadLetterForms(verdict.record.message, verdict.error, runtime, marksOf(verdict)),
    }))
    for (;;) {
      const letters = copies.flatMap((copy) => {
        const { done, value } = copy.forms.next()
        return done === true ? [] : [{ ...copy, letter: value }]
      })
      if (letters.length === 0) return results
      const messages = letters.map(({ letter }) => letter)
      const answers = await abortable(publisher.publish(destination, messages, { signal }), cancelled)
      checkResultCount(answers, letters.length, destination)
      copies = letters.filter(({ index }, at) => {
        const answer = answers[at]
        if (answer === undefined) return false
        // The error of the first form is the most informative.
        if (answer.ok || results[index] === undefined) results[index] = answer
        return !answer.ok && answer.permanent === true && answer.scope !== 'destination'
      })
    }
  }

  #pauseAfterTimeout(): void {
    const { backoff, runtime } = this.#options
    this.#hung += 1
    this.#notBefore = runtime.monotonic() + backoffDelay(backoff, this.#hung, runtime)
  }

  /** Logs one line at the start and one at the end of an outage. */
  #report(error: Error | undefined): void {
    const { deadLetter, logger } = this.#options
    const { destination } = deadLetter
    const failing = error !== undefined
    if (failing === this.#failing) return
    this.#failing = failing
    const text = 'The dead letter did not accept copies of parked records. They are parked nevertheless, and their errors say so.'
    if (failing) logger.warn({ destination, err: error }, text)
    else logger.info({ destination }, 'The dead letter accepts copies of parked records again.')
  }
}

/**
 * A record that has used up its attempts may have been claimed without its data, which is still in the store. A reader of the copy must not mistake
 * it for an empty event.
 */
function marksOf({ record, reason }: Verdict): Attributes {
  const hasNoData = reason === 'unsettled' && record.message.data.byteLength === 0
  return { deadletterdestination: redactDestination(record.destination), ...(hasNoData ? { deadletterform: 'nodata' } : {}) }
}

function recentlyTimedOut(destination: string): AckordError {
  return new AckordError(
    'ACKORD_PUBLISH_FAILED',
    `The dead letter '${redactDestination(destination)}' timed out recently and was not tried again yet.`,
  )
}
