import type { NackOptions } from './acking.ts'
import type { Attributes } from './attributes.ts'
import { exponentialBackoff } from './backoff.ts'
import { type DeadLetter, sendDeadLetter } from './dead-letter.ts'
import { InvalidOptionError } from './errors.ts'
import { consoleLogger, type Logger } from './logger.ts'
import { Message, type RawMessage } from './message.ts'
import { checkDuration, checkNoMore } from './options.ts'
import { guardLogger } from './ports.ts'
import { type Runtime, systemRuntime } from './runtime.ts'
import { nameOf } from './stages.ts'

export interface ReceiverOptions {
  /**
   * Where rejected messages go: with a confirmed publish, before they are acked; or `'discard'`: they are acked and gone.
   * Default: neither; a rejected message is nacked with a growing delay, and a warning says so once.
   */
  readonly deadLetter?: DeadLetter | 'discard' | undefined
  /** Milliseconds that the publish to the dead letter may take. Default: 10,000. */
  readonly deadLetterTimeout?: number | undefined
  readonly runtime?: Runtime | undefined
  /** Default: the console, from `info` up. */
  readonly logger?: Logger | undefined
}

/** One message as a broker's client delivers it. */
export interface Delivery {
  readonly data: Uint8Array
  readonly attributes: Attributes
  /** How often it was delivered, this time included, where the broker counts. */
  readonly deliveryCount?: number | undefined
  ack(): void | Promise<void>
  nack(error: unknown, options: NackOptions): void | Promise<void>
  /** Ends the message for good where the broker tells that apart from an ack. Default: `ack`. */
  terminate?(): void | Promise<void>
}

const rejectedDelay = exponentialBackoff()

/** For sources, one per source: makes messages whose `reject` loses nothing. */
export function createReceiver(options: ReceiverOptions = {}): (delivery: Delivery) => RawMessage {
  const { deadLetter, deadLetterTimeout = 10_000, runtime = systemRuntime, logger: given = consoleLogger, ...unknown } = options
  checkNoMore('A receiver', unknown)
  const logger = guardLogger(given)
  checkDuration('deadLetterTimeout', deadLetterTimeout, { min: 1 })
  checkDeadLetter(deadLetter)
  let warned = false

  async function reject(message: RawMessage, delivery: Delivery, error: unknown): Promise<void> {
    const later: NackOptions = { retryAfter: rejectedDelay(delivery.deliveryCount ?? 1, runtime.random) }
    if (deadLetter === undefined) {
      if (!warned) logger.warn({ err: error, message: nameOf(message) }, noDeadLetter)
      warned = true
      await delivery.nack(error, later)
      return
    }
    if (deadLetter !== 'discard') {
      try {
        await sendDeadLetter(deadLetter, message, error, { runtime, timeout: deadLetterTimeout })
      } catch (failure) {
        const fields = { err: failure, message: nameOf(message), destination: deadLetter.destination }
        logger.error(fields, 'The dead letter did not take a rejected message; it will be delivered again.')
        await delivery.nack(failure, later)
        throw failure
      }
    }
    await (delivery.terminate === undefined ? delivery.ack() : delivery.terminate())
  }

  return function receive(delivery) {
    const { data, attributes, deliveryCount } = delivery
    const message: RawMessage = new Message(data, attributes, {
      deliveryCount,
      acking: {
        ack: () => delivery.ack(),
        nack: (error, nackOptions) => delivery.nack(error, nackOptions),
        reject: (error) => reject(message, delivery, error),
      },
    })
    return message
  }
}

const noDeadLetter =
  "A message was rejected, but its source has no deadLetter: it is delivered again, later and later. Set deadLetter to a publisher and destination, or to 'discard'."

function checkDeadLetter(deadLetter: ReceiverOptions['deadLetter']): void {
  if (deadLetter === undefined || deadLetter === 'discard') return
  if (typeof deadLetter?.publisher?.publish === 'function' && typeof deadLetter.destination === 'string') return
  throw new InvalidOptionError('deadLetter', "must be { publisher, destination }, or 'discard'.")
}
