import type { PublishFailure } from '@ackord/core'
import { destinationFailure, permanentFailure, recordFailure } from '@ackord/core/broker'
import { conditionOf, toConditionError } from '../conditions.ts'

/** A message in AMQP's format, with the name that it is published to. */
export interface Envelope {
  readonly address: string
  readonly payload: Buffer
}

/** Conditions that are about the target, whatever the message. All others are about the message. */
const ofDestination: ReadonlySet<string> = new Set([
  'amqp:resource-limit-exceeded',
  'amqp:not-found',
  'amqp:unauthorized-access',
  'amqp:resource-locked',
  'amqp:resource-deleted',
  'amqp:internal-error',
  'amqp:illegal-state',
  'amqp:link:detach-forced',
  'amqp:link:stolen',
  'amqp:link:redirect',
  'amqp:link:transfer-limit-exceeded',
  'amqp:connection:forced',
  'com.microsoft:server-busy',
  'com.microsoft:timeout',
  'com.microsoft:operation-cancelled',
  'com.microsoft:entity-disabled',
  'com.microsoft:container-close',
  'com.microsoft:store-lock-lost',
])

/** Conditions with which the same message would be refused again. */
const permanent: ReadonlySet<string> = new Set([
  'amqp:link:message-size-exceeded',
  'amqp:decode-error',
  'amqp:invalid-field',
  'amqp:not-allowed',
  'amqp:not-implemented',
  'com.microsoft:argument-error',
  'com.microsoft:argument-out-of-range',
])

/** The broker does not have the message. From RabbitMQ this means that it has no queue for it. */
export function unroutable(address: string, scope: 'destination' | 'record'): PublishFailure {
  const text = `The broker released a message to '${address}': it has no queue for it, or cannot store it now. Create the queue, or bind one to the exchange.`
  return scope === 'destination' ? destinationFailure(text) : { ...recordFailure(text), scope }
}

/** The broker refused the message. RabbitMQ gives no reason when a queue is full, or could not store it. */
export function rejected(address: string, error: unknown): PublishFailure {
  const condition = conditionOf(error)
  if (condition === undefined)
    return destinationFailure(`The broker did not accept a message to '${address}': the queue is full, or could not store it.`)
  const cause = toConditionError(error, 'the message was rejected')
  const text = `The broker rejected a message to '${address}': ${cause.message}`
  if (permanent.has(condition)) return permanentFailure(text, cause)
  return ofDestination.has(condition) ? destinationFailure(text, cause) : recordFailure(text, cause)
}

/** The link was lost before the broker had answered: it may or may not have the message. */
export function unconfirmed(address: string, cause: unknown): PublishFailure {
  return destinationFailure(`The link to '${address}' was lost before the broker had confirmed a message${becauseOf(cause)}`, cause)
}

/** The link could not be attached: nothing was sent. */
export function notAttached(address: string, cause: unknown): PublishFailure {
  return destinationFailure(`Nothing can be sent to '${address}'${becauseOf(cause)}`, cause)
}

export function tooLarge(address: string, size: number, limit: number): PublishFailure {
  return permanentFailure(`A message of ${size} bytes to '${address}' is larger than the broker accepts: ${limit} bytes.`)
}

function becauseOf(cause: unknown): string {
  return cause instanceof Error ? `: ${cause.message}` : '.'
}
