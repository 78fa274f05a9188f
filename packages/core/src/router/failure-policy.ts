import { AckordError, describeValue, type ErrorCode, isAckordError } from '../errors.ts'
import { describeMessage } from '../message/marshal.ts'
import { isRetryable, isSettled, type Message, retryAfterOf } from '../message/message.ts'
import type { ErrorDecision, RouterSettings } from './router-options.ts'

/** Decides what a router does with a message that was not handled: redelivery, with or without a delay, or rejection. */
export class FailurePolicy {
  readonly #settings: RouterSettings
  readonly #forced: AbortSignal
  #uncountedWarned = false

  /** `forced` is aborted when the shutdown is forced: a failure then is not the message's fault. */
  constructor(settings: RouterSettings, forced: AbortSignal) {
    this.#settings = settings
    this.#forced = forced
  }

  /**
   * Throws if a message was delivered far too often: it is not tried again, because it may be what crashes the process. The limit is not exceeded by
   * one only: deliveries without an attempt (behind a nacked message of its key, an open circuit) count too, and so does one whose ack was lost.
   */
  checkDeliveries(message: Message): void {
    const { maxDeliveries, logger } = this.#settings
    if (maxDeliveries === Infinity) return
    if (message.deliveryCount === undefined) {
      if (!this.#uncountedWarned) logger.warn({ maxDeliveries }, 'maxDeliveries has no effect: this source does not count deliveries.')
      this.#uncountedWarned = true
    } else if (message.deliveryCount > 2 * maxDeliveries) {
      throw tooManyDeliveries(message, maxDeliveries, undefined)
    }
  }

  /** The error, or an error that says that this was the last delivery. */
  limitDeliveries(message: Message, error: Error): Error {
    const { maxDeliveries, onUnknownType } = this.#settings
    const last = message.deliveryCount !== undefined && message.deliveryCount >= maxDeliveries
    if (!last || isSettled(message) || this.#forced.aborted || isAckordError(error, 'ACKORD_MAX_DELIVERIES')) return error
    if (notAttempts.some((code) => isAckordError(error, code))) return error
    const nackedAnyway = isUnknownType(error) && onUnknownType === 'nack'
    return isRetryable(error) || nackedAnyway ? tooManyDeliveries(message, maxDeliveries, error) : error
  }

  /** `'nack'` alone means without a delay. */
  decide(message: Message, error: Error): ErrorDecision {
    const asked = this.#decide(message, error)
    const decision = asked ?? this.#default(error)
    if (decision !== 'nack') return decision
    const retryAfter = this.#delayOf(message, error)
    return retryAfter === undefined ? 'nack' : { retryAfter }
  }

  #decide(message: Message, error: Error): ErrorDecision | undefined {
    const { onError, logger } = this.#settings
    const onFailure = (err: unknown) =>
      logger.error({ err }, 'onError itself failed; the message is settled as if it had returned nothing.')
    try {
      const decision: unknown = onError?.(error, message)
      if (decision === undefined || isDecision(decision)) return decision
      if (decision instanceof Promise) decision.catch(onFailure)
      throw new TypeError(
        `It must return 'ack', 'nack', 'reject' or { retryAfter }, synchronously; it returned ${describeValue(decision)}.`,
      )
    } catch (err) {
      onFailure(err)
      return undefined
    }
  }

  #default(error: Error): 'ack' | 'nack' | 'reject' {
    if (isUnknownType(error)) return this.#settings.onUnknownType
    return isRetryable(error) ? 'nack' : 'reject'
  }

  #delayOf(message: Message, error: Error): number | undefined {
    if (this.#forced.aborted) return 0
    const asked = retryAfterOf(error)
    if (asked !== undefined) return asked
    const { redeliveryDelay, runtime, logger } = this.#settings
    try {
      const delay: unknown = redeliveryDelay(message.deliveryCount ?? 1, runtime.random)
      if (isDelay(delay)) return delay
      throw new TypeError(
        `It must return milliseconds, 0 or more; it returned ${typeof delay === 'number' ? delay : describeValue(delay)}.`,
      )
    } catch (err) {
      logger.error({ err }, 'redeliveryDelay itself failed; the message is nacked without a delay.')
      return undefined
    }
  }
}

/** Failures that say nothing about the message: it was not tried. */
const notAttempts: readonly ErrorCode[] = [
  'ACKORD_CIRCUIT_OPEN',
  'ACKORD_CODEC_FAILED',
  'ACKORD_INBOX_BUSY',
  'ACKORD_SHUTDOWN',
  'ACKORD_STORE_REFUSES_WRITES',
  'ACKORD_TENANT_UNAVAILABLE',
]

function isUnknownType(error: Error): boolean {
  return isAckordError(error, 'ACKORD_NO_HANDLER') || isAckordError(error, 'ACKORD_HANDLER_REFUSED')
}

function isDecision(value: unknown): value is ErrorDecision {
  if (typeof value === 'object' && value !== null) return 'retryAfter' in value && isDelay(value.retryAfter)
  return value === 'ack' || value === 'nack' || value === 'reject'
}

function isDelay(value: unknown): value is number {
  return typeof value === 'number' && value >= 0 && value < Infinity
}

function tooManyDeliveries(message: Message, maxDeliveries: number, cause: Error | undefined): AckordError {
  const text = `${describeMessage(message)} was delivered ${message.deliveryCount} times; maxDeliveries is ${maxDeliveries}.`
  return new AckordError('ACKORD_MAX_DELIVERIES', text[0]?.toUpperCase() + text.slice(1), {
    retryable: false,
    ...(cause === undefined ? {} : { cause }),
  })
}
