import { AckordError } from './errors.ts'
import type { PublishFailure, PublishResult } from './publisher.ts'

/** Throws one error for what was not confirmed. A publisher that answers with the wrong number of results has confirmed nothing that could be told apart. */
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
    `The publisher for '${destination}' answered ${expected} messages with ${found}; a publisher gives one result per message, in their order.`,
  )
}

function isResult(value: unknown): boolean {
  return typeof value === 'object' && value !== null && 'ok' in value && typeof value.ok === 'boolean'
}

/** Not retryable if the broker will refuse one of them again: handling the input once more would not get it through either. */
export function publishError(failures: readonly PublishFailure[], sent: number, destination: string): AckordError {
  const causes = failures.map((failure) => failure.error)
  const pauses = failures.flatMap(({ retryAfter }) => retryAfter ?? [])
  const error = new AckordError('ACKORD_PUBLISH_FAILED', `${failures.length} of ${sent} messages to '${destination}' were not confirmed.`, {
    retryable: !failures.some((failure) => failure.permanent === true && failure.scope !== 'destination'),
    cause: causes.length === 1 ? causes[0] : new AggregateError(causes),
  })
  // The router takes its delay from here.
  return pauses.length === 0 ? error : Object.assign(error, { retryAfter: Math.max(...pauses) })
}
