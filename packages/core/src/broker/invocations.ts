import { AckordError, toError } from '../errors.ts'
import type { HandleOneResult } from '../message/acking.ts'
import { describeMessage } from '../message/marshal.ts'
import type { Message, RawMessage } from '../message/message.ts'
import { checkDuration, checkFunction } from '../options.ts'
import { type Runtime, systemRuntime } from '../ports/runtime.ts'
import { createReceiver, type Delivery, type Receiver, type ReceiverOptions } from './receiver.ts'
import { rejectUnreadable } from './settlement-errors.ts'

/** What handles the messages of a serverless function: a `Router`, or a service. */
export interface SingleMessageHandler {
  handleOne(
    message: Message,
    options?: { readonly timeout?: number | undefined; readonly grace?: number | undefined },
  ): Promise<HandleOneResult>
}

/** The relay of a serverless function: a `Relay`, which is not started. */
export interface DrainableRelay {
  drain(options: { readonly deadline: number; readonly count: boolean }): Promise<unknown>
}

/** The options of every function that handles the events of a serverless platform. */
export interface InvocationOptions extends ReceiverOptions {
  /**
   * Publishes the events in the outbox at the end of the invocation, before the platform gets its answer. If it fails, the messages count as handled nevertheless, and the
   * events stay in the outbox for the next drain. It must not be started. Default: none; a relay elsewhere publishes them.
   */
  readonly relay?: DrainableRelay | undefined
  /** The time limit of that in milliseconds, and never later than the deadline of the platform. Default: 5,000. */
  readonly drainTimeout?: number | undefined
}

/** A message as a platform passes it to a function. */
export interface InvokedMessage extends Pick<Delivery, 'data' | 'attributes' | 'deliveryCount' | 'origin'> {
  /** Why it cannot be read: it is rejected without being handled. */
  readonly unreadable?: unknown
}

/** What the platform is told about a message. `done`: it need not deliver the message again. */
export type InvocationOutcome =
  | { readonly done: true }
  /** `retryAfter`: milliseconds, if a delay was asked for. */
  | { readonly done: false; readonly error: Error; readonly retryAfter: number | undefined }

/** How long the invocation may take from now on, in milliseconds, and the part of it that is kept for the answer. */
export interface InvocationTime {
  readonly remaining: number
  readonly margin: number
}

/**
 * For the adapters of serverless platforms: handles the messages of an invocation and reports which of them must be delivered again. A rejected message goes to the dead
 * letter; without one it must be delivered again, so that the platform's own limit of deliveries applies.
 *
 *     const invocations = new Invocations(service, { deadLetter })
 *     const outcome = await invocations.handle({ data, attributes }, { remaining: 30_000, margin: 1000 })
 *     if (!outcome.done) throw outcome.error
 */
export class Invocations {
  readonly receiver: Receiver
  readonly #handler: SingleMessageHandler
  readonly #runtime: Runtime
  readonly #relay: DrainableRelay | undefined
  readonly #drainTimeout: number

  constructor(handler: SingleMessageHandler, options: InvocationOptions) {
    const { relay, drainTimeout = 5000, ...receiving } = options
    checkFunction('handler.handleOne', handler?.handleOne)
    if (relay !== undefined) checkFunction('relay.drain', relay.drain)
    this.receiver = createReceiver(receiving)
    this.#handler = handler
    this.#runtime = receiving.runtime ?? systemRuntime
    this.#relay = relay
    this.#drainTimeout = checkDuration('drainTimeout', drainTimeout, { min: 1 })
  }

  /** Measures the time of an invocation that has `remaining` milliseconds. */
  clock({ remaining, margin }: InvocationTime): () => InvocationTime {
    const end = this.#runtime.monotonic() + remaining
    return () => ({ remaining: Math.max(0, end - this.#runtime.monotonic()), margin })
  }

  /** Never rejects. */
  async handle(invoked: InvokedMessage, { remaining, margin }: InvocationTime): Promise<InvocationOutcome> {
    const { unreadable, ...content } = invoked
    const carriedOut: { outcome?: InvocationOutcome } = {}
    const again = (error: unknown, retryAfter?: number): InvocationOutcome => ({ done: false, error: toError(error), retryAfter })
    const message: RawMessage = this.receiver({
      ...content,
      ack: () => {
        carriedOut.outcome = { done: true }
      },
      nack: (error, { retryAfter }) => {
        carriedOut.outcome = again(error, retryAfter)
      },
    })
    if ('unreadable' in invoked && unreadable !== undefined) {
      rejectUnreadable(message, `A message from '${content.origin ?? 'the platform'}'`, unreadable, {
        logger: this.receiver.logger,
        fields: {},
      })
      await message.settled
      return carriedOut.outcome ?? again(unreadable)
    }
    const timeout = remaining - margin
    // It would be aborted immediately. Its delivery is not the message's fault.
    if (timeout <= 0) return again(noTime(message))
    try {
      const { verdict, error, failure } = await this.#handler.handleOne(message, { timeout, grace: margin / 2 })
      const { outcome } = carriedOut
      if (failure !== undefined) return outcome?.done === false ? outcome : again(failure)
      // A nack in a transaction that has not ended yet is not carried out.
      return outcome ?? (verdict === 'acked' ? { done: true } : again(error))
    } catch (error) {
      this.receiver.logger.error({ err: error }, 'A message was not handled, because handleOne() rejected it.')
      return again(error)
    }
  }

  /** Publishes the events in the outbox, if there is a relay and time. Never rejects: the messages are handled. */
  async drain({ remaining, margin }: InvocationTime): Promise<void> {
    const deadline = Math.min(this.#drainTimeout, remaining - margin / 4)
    if (this.#relay === undefined || deadline <= 0) return
    try {
      await this.#relay.drain({ deadline, count: false })
    } catch (error) {
      this.receiver.logger.error({ err: error }, 'The outbox was not drained. Its events stay there for the next drain, or another relay.')
    }
  }

  /** For platforms that know one outcome only: throws the error of the first message that must be delivered again. */
  rethrow(outcomes: readonly InvocationOutcome[]): void {
    const failed = outcomes.filter((outcome) => !outcome.done)
    const [first] = failed
    if (first === undefined) return
    if (failed.length === 1) throw first.error
    throw new AggregateError(
      failed.map(({ error }) => error),
      `${failed.length} of ${outcomes.length} messages must be delivered again. The first failure: ${first.error.message}`,
    )
  }
}

function noTime(message: Message): AckordError {
  return new AckordError('ACKORD_PROCESS_TIMEOUT', `The invocation had no time left for ${describeMessage(message)}.`)
}
