import { abortable } from '../async/abort.ts'
import { AckordError, toError } from '../errors.ts'
import type { RawMessage } from '../message/message.ts'
import type { Part } from '../ports/part-ports.ts'
import { describeError, redactDestination } from '../ports/redact.ts'
import type { BrokerAddress } from './source.ts'

/** Sends messages to a broker. What uses it, such as a router, a relay or a source with a dead letter, passes its logger on by `inheritPorts()`, if there is one. */
export interface Publisher extends Part, BrokerAddress {
  /**
   * Sends the messages, in this order, and waits until the broker has confirmed each. Resolves to one result per message, in their order:
   * only a message that is `ok` counts as sent. Rejects only when nothing is known about any of them. Never settles the messages.
   */
  publish(destination: string, messages: readonly RawMessage[], options: PublishOptions): Promise<readonly PublishResult[]>
  /** Waits for the calls in flight, and closes the connections that the publisher has opened itself. Idempotent. */
  close?(): Promise<void>
  /** The same as `close()`, for `await using`. */
  [Symbol.asyncDispose]?(): Promise<void>
}

export interface PublishOptions {
  readonly signal: AbortSignal
  /** Set by a relay: milliseconds since the oldest of the messages was stored, by the store's clock. For telemetry. */
  readonly oldestAge?: number | undefined
}

export type PublishResult = { readonly ok: true } | PublishFailure

export interface PublishFailure {
  readonly ok: false
  readonly error: unknown
  /** The same message will fail again: too large, refused by a schema. Default: false. */
  readonly permanent?: boolean | undefined
  /** Whether the message or the whole destination is at fault: broker down, not allowed, topic missing. Default: 'record'. */
  readonly scope?: 'record' | 'destination' | undefined
  /** `false` if the message was not sent, because an earlier one of the call had failed. A relay then counts no attempt. Default: true. */
  readonly tried?: boolean | undefined
  /** Milliseconds before it is worth trying again. */
  readonly retryAfter?: number | undefined
}

/** Publishes the messages and rejects with `ACKORD_PUBLISH_FAILED` unless the broker has confirmed every one, so that no result is overlooked. */
export async function publishAll(
  publisher: Publisher,
  destination: string,
  messages: readonly RawMessage[],
  options: { readonly signal?: AbortSignal | undefined } = {},
): Promise<void> {
  const { signal = new AbortController().signal } = options
  checkResults(await abortable(publisher.publish(destination, messages, { signal }), signal), messages.length, destination)
}

/** Throws one error for all messages that were not confirmed. If the number of results is wrong, they cannot be matched to messages, and none counts as confirmed. */
export function checkResults(results: readonly PublishResult[], expected: number, destination: string): void {
  checkResultCount(results, expected, destination)
  const failures = results.filter((result): result is PublishFailure => !result.ok)
  if (failures.length > 0) throw publishError(failures, expected, destination)
}

export function checkResultCount(results: readonly PublishResult[], expected: number, destination: string): void {
  if (Array.isArray(results) && results.length === expected && Array.from(results).every(isResult)) return
  const found = Array.isArray(results) ? `${results.filter(isResult).length} results` : 'no list of results'
  throw new AckordError(
    'ACKORD_PUBLISH_FAILED',
    `The publisher for '${redactDestination(destination)}' answered ${expected} messages with ${found}; a publisher gives one result per message, in their order.`,
  )
}

function isResult(value: unknown): boolean {
  return typeof value === 'object' && value !== null && 'ok' in value && typeof value.ok === 'boolean'
}

/** Not retryable if the broker will refuse one of the messages again: handling the input once more would not help. */
export function publishError(failures: readonly PublishFailure[], sent: number, destination: string): AckordError {
  const causes = failures.map((failure) => failure.error)
  const pauses = failures.flatMap(({ retryAfter }) => retryAfter ?? [])
  const error = new AckordError(
    'ACKORD_PUBLISH_FAILED',
    `${failures.length} of ${sent} messages to '${redactDestination(destination)}' were not confirmed${reasonOf(causes)}`,
    {
      retryable: !failures.some((failure) => failure.permanent === true && failure.scope !== 'destination'),
      cause: causes.length === 1 ? causes[0] : new AggregateError(causes),
    },
  )
  // The router takes its delay from here.
  return pauses.length === 0 ? error : Object.assign(error, { retryAfter: Math.max(...pauses) })
}

/** UTF-16 code units of the first failure in the message of the error. */
const maxReasonLength = 1000

/** In the message itself: Node prints the causes of an uncaught error below its stack, where those of many messages are hard to read. */
function reasonOf(causes: readonly unknown[]): string {
  const [first] = causes
  if (first === undefined) return '.'
  const text = describeError(toError(first), maxReasonLength)
  return causes.length === 1 ? `: ${text}` : `. The first failure: ${text}`
}
