import { type DeadLetter, sendDeadLetter } from '../broker/dead-letter.ts'
import { AckordError } from '../errors.ts'
import { logFields } from '../message/log-fields.ts'
import { describeMessage, marshalAsIs } from '../message/marshal.ts'
import { jsonMarshaler, type Marshaler } from '../message/marshaler.ts'
import { isSettled, type Message } from '../message/message.ts'
import { checkDuration, checkFunction, checkName } from '../options.ts'
import { receivedMessageKey } from '../payload/payload-decoder.ts'
import type { Logger } from '../ports/observability.ts'
import { PartPorts } from '../ports/part-ports.ts'
import { redactDestination } from '../ports/redact.ts'
import { type Runtime, systemRuntime } from '../ports/runtime.ts'
import { type Middleware, middleware } from './middleware.ts'

export interface DeadLetterOptions {
  /** Writes the data of the letter. A message that passed codecs is sent as it was received. Default: `jsonMarshaler`. */
  readonly marshaler?: Marshaler | undefined
  /**
   * Which failures are final; the others are rethrown. With a circuit breaker inside, exclude `ACKORD_CIRCUIT_OPEN`, and with the codecs of an outbox inside
   * `ACKORD_CODEC_FAILED`; otherwise an outage moves the queue to the dead letter. Default: all of them.
   */
  readonly shouldSend?: ((error: unknown, message: Message) => boolean) | undefined
  /** Milliseconds to wait for the confirmation. Default: 10,000. */
  readonly timeout?: number | undefined
  /** Default: `systemRuntime`. */
  readonly runtime?: Runtime | undefined
  /** Default: that of the router. */
  readonly logger?: Logger | undefined
}

/**
 * Sends a message that failed to the dead letter and, once that is confirmed, treats it as handled: it is acked. Not after an abort, which is no
 * fault of the message, and not if the message is settled already.
 */
export function deadLetterMiddleware(deadLetter: DeadLetter, options: DeadLetterOptions = {}): Middleware {
  const { marshaler = jsonMarshaler, shouldSend = always, timeout = 10_000 } = options
  const { runtime = systemRuntime, logger: given } = options
  const { destination } = deadLetter
  checkName('deadLetter.destination', destination)
  checkFunction('deadLetter.publisher.publish', deadLetter.publisher?.publish)
  checkFunction('shouldSend', shouldSend)
  checkDuration('timeout', timeout, { min: 1 })
  const { logger, inheritPorts } = new PartPorts({ logger: given }, [deadLetter.publisher])

  return middleware(
    { role: 'deadLetter', inheritPorts },
    (next) =>
      async function deadLetters(message, context) {
        try {
          return await next(message, context)
        } catch (error) {
          if (context.signal.aborted || isSettled(message) || !shouldSend(error, message)) throw error
          try {
            // Data that a codec has decrypted or fetched must not leave the process.
            const letter = context.get(receivedMessageKey) ?? marshalAsIs(message, marshaler)
            await sendDeadLetter(deadLetter, letter, error, { runtime, timeout })
          } catch (failure) {
            throw notSent(message, destination, error, failure)
          }
          const fields = { err: error, ...logFields(message), deadLetter: destination }
          logger.warn(fields, 'A message failed and was sent to the dead letter.')
          return []
        }
      },
  )
}

/** Retryable, whatever the failure was: only a redelivered message can still reach the dead letter. */
function notSent(message: Message, destination: string, error: unknown, failure: unknown): AckordError {
  const text = `Handling ${describeMessage(message)} failed, and so did sending it to the dead letter '${redactDestination(destination)}'.`
  return new AckordError('ACKORD_PUBLISH_FAILED', text, { cause: new AggregateError([error, failure]) })
}

function always(): boolean {
  return true
}
