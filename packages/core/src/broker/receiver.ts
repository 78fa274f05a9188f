import { exponentialBackoff } from '../async/backoff.ts'
import { InvalidOptionError } from '../errors.ts'
import type { NackOptions } from '../message/acking.ts'
import type { Attributes } from '../message/attributes.ts'
import { logFields } from '../message/log-fields.ts'
import { isRetryable, Message, type RawMessage } from '../message/message.ts'
import { checkDuration, checkFunction, rejectUnknownOptions } from '../options.ts'
import type { Logger } from '../ports/observability.ts'
import { type Part, PartPorts } from '../ports/part-ports.ts'
import { type Runtime, systemRuntime } from '../ports/runtime.ts'
import { type DeadLetter, sendDeadLetter } from './dead-letter.ts'

export interface ReceiverOptions {
  /**
   * Where rejected messages are published, confirmed, before they are acked; or `'discard'`: they are acked and dropped.
   * Default: neither; a rejected message is nacked with a growing delay, and a warning is logged once.
   */
  readonly deadLetter?: DeadLetter | 'discard' | undefined
  /** The time limit in milliseconds of the publish to the dead letter. Default: 10,000. */
  readonly deadLetterTimeout?: number | undefined
  /**
   * Called with a message that the dead letter refuses for good in every form, and with the reason it was rejected for. Store the message where an operator
   * finds it: it is acked when the call resolves, and delivered again after ten minutes if it fails. Default: an error is logged and the message is parked at the
   * broker, if that keeps it: Kafka in its topic, NATS in a stream with `limits` retention, RabbitMQ by the dead-letter exchange in `declare`. Other brokers
   * deliver it again after ten minutes.
   */
  readonly onUndeliverable?: ((message: RawMessage, error: unknown) => void | Promise<void>) | undefined
  readonly runtime?: Runtime | undefined
  /** Default: that of the router that reads the source; until then the console, from `info` up. */
  readonly logger?: Logger | undefined
}

/** One message as a broker's client delivers it. */
export interface Delivery {
  readonly data: Uint8Array
  readonly attributes: Attributes
  /** The number of deliveries, this one included; `undefined` if the broker does not count. */
  readonly deliveryCount?: number | undefined
  /**
   * The destination under which a publisher of the broker sends the message here again: a queue, subject, topic or stream. Its dead letter names it as
   * `deadletterdestination`, for a replay; log lines show it. Default: unknown.
   */
  readonly origin?: string | undefined
  ack(): void | Promise<void>
  nack(error: unknown, options: NackOptions): void | Promise<void>
  /** Ends the message for good, if the broker distinguishes that from an ack. Default: `ack`. */
  terminate?(): void | Promise<void>
  /**
   * Settles the message so that the broker keeps it for an operator, and does not deliver it again. Resolves `false`, and settles nothing, if
   * the broker would drop it. Default: it would.
   */
  park?(): boolean | Promise<boolean>
}

const rejectedDelay = exponentialBackoff()
// For a message that needs an operator.
const undeliverableDelay = 600_000

/** Creates the messages of a source, and has its logger. */
export interface Receiver extends Required<Part> {
  (delivery: Delivery): RawMessage
  /** For all that the source logs: the one among the options, or that of the router. */
  readonly logger: Logger
}

/** For sources, one per source: creates messages whose `reject` loses nothing. The dead letter's publisher inherits the source's logger. */
export function createReceiver(options: ReceiverOptions = {}): Receiver {
  const { deadLetter, deadLetterTimeout = 10_000, onUndeliverable, runtime = systemRuntime, logger: given, ...unknown } = options
  rejectUnknownOptions('A receiver', unknown)
  checkDuration('deadLetterTimeout', deadLetterTimeout, { min: 1 })
  checkDeadLetter(deadLetter)
  if (onUndeliverable !== undefined) checkFunction('onUndeliverable', onUndeliverable)
  const publisher = typeof deadLetter === 'object' ? deadLetter.publisher : undefined
  const { logger, inheritPorts } = new PartPorts({ logger: given }, [publisher])
  const deadLetterName = typeof deadLetter === 'object' ? deadLetter.destination : deadLetter
  let warned = false

  async function reject(message: RawMessage, delivery: Delivery, error: unknown): Promise<void> {
    const later: NackOptions = { retryAfter: rejectedDelay(delivery.deliveryCount ?? 1, runtime.random) }
    if (deadLetter === undefined) {
      if (!warned) logger.warn({ err: error, ...logFields(message) }, noDeadLetter)
      warned = true
      await delivery.nack(error, later)
      return
    }
    if (deadLetter !== 'discard') {
      try {
        await sendDeadLetter(deadLetter, message, error, { runtime, timeout: deadLetterTimeout })
      } catch (failure) {
        if (!isRetryable(failure)) {
          await settleUndeliverable(message, delivery, error, failure)
          return
        }
        const fields = { err: failure, ...logFields(message), deadLetter: deadLetterName, ...later }
        logger.error(fields, 'The dead letter did not take a rejected message; it will be delivered again.')
        await delivery.nack(failure, later)
        throw failure
      }
    }
    await end(delivery)
  }

  /** The message is neither dropped nor redelivered without a pause: `onUndeliverable` stores it, or else the broker keeps it. */
  async function settleUndeliverable(message: RawMessage, delivery: Delivery, error: unknown, failure: unknown): Promise<void> {
    const fields = { err: failure, ...logFields(message), deadLetter: deadLetterName }
    if (onUndeliverable !== undefined) {
      try {
        await onUndeliverable(message, error)
      } catch (err) {
        logger.error({ ...fields, err }, 'onUndeliverable failed; the message is delivered again in ten minutes.')
        await delivery.nack(err, { retryAfter: undeliverableDelay })
        throw err
      }
      logger.error(fields, 'The dead letter refused a rejected message in every form; onUndeliverable has it.')
      await end(delivery)
      return
    }
    if ((await delivery.park?.()) === true) {
      logger.error(fields, 'The dead letter refused a rejected message in every form; the broker keeps it and does not deliver it again.')
      return
    }
    logger.error(fields, undeliverable)
    await delivery.nack(failure, { retryAfter: undeliverableDelay })
    throw failure
  }

  function receive(delivery: Delivery): RawMessage {
    const { data, attributes, deliveryCount, origin } = delivery
    const message: RawMessage = new Message(data, attributes, {
      deliveryCount,
      origin,
      acking: {
        ack: () => delivery.ack(),
        nack: (error, nackOptions) => delivery.nack(error, nackOptions),
        reject: (error) => reject(message, delivery, error),
        deadLetter: deadLetterName,
      },
    })
    return message
  }
  return Object.assign(receive, { logger, inheritPorts })
}

async function end(delivery: Delivery): Promise<void> {
  await (delivery.terminate === undefined ? delivery.ack() : delivery.terminate())
}

const undeliverable =
  'The dead letter refused a rejected message in every form; it is delivered again in ten minutes. Check what the dead letter accepts, or set onUndeliverable.'
const noDeadLetter =
  "A message was rejected, but its source has no deadLetter: it is delivered again, later and later. Set deadLetter to a publisher and destination, or to 'discard'."

function checkDeadLetter(deadLetter: ReceiverOptions['deadLetter']): void {
  if (deadLetter === undefined || deadLetter === 'discard') return
  if (typeof deadLetter?.publisher?.publish === 'function' && typeof deadLetter.destination === 'string') return
  throw new InvalidOptionError('deadLetter', "must be { publisher, destination }, or 'discard'.")
}
