import type { Attributes } from '@ackord/core'
import { type PublishedEvent, readData } from './published-events.ts'

/** What is said of an event. All of it must hold; what is not named may be anything. */
export interface ExpectedEvent {
  readonly type?: string | undefined
  readonly id?: string | undefined
  readonly destination?: string | undefined
  /** Some of its attributes, such as `partitionkey`. */
  readonly attributes?: Attributes | undefined
  /**
   * Of objects, some members, at any depth; lists have all of theirs. Matchers of vitest and jest (`expect.any(String)`) may stand anywhere.
   * Data that is neither JSON nor text is compared as bytes.
   */
  readonly data?: unknown
}

export function isExpected(event: PublishedEvent, expected: ExpectedEvent): boolean {
  const { destination, message } = event
  const { attributes } = message
  const wanted = { type: expected.type, id: expected.id, ...expected.attributes }
  return (
    (expected.destination === undefined || destination === expected.destination) &&
    Object.entries(wanted).every(([name, value]) => value === undefined || contains(attributes[name], value)) &&
    (!('data' in expected) || contains(readData(message), expected.data))
  )
}

/** Whether the one is in the other: equal, with members left out. */
function contains(actual: unknown, expected: unknown): boolean {
  if (isMatcher(expected)) return expected.asymmetricMatch(actual)
  if (expected instanceof Uint8Array) return actual instanceof Uint8Array && Buffer.compare(actual, expected) === 0
  if (typeof expected !== 'object' || expected === null) return Object.is(actual, expected)
  if (typeof actual !== 'object' || actual === null || Array.isArray(actual) !== Array.isArray(expected)) return false
  if (Array.isArray(expected) && (actual as unknown[]).length !== expected.length) return false
  return Object.entries(expected).every(([name, value]) => contains((actual as Record<string, unknown>)[name], value))
}

function isMatcher(value: unknown): value is { asymmetricMatch(actual: unknown): boolean } {
  return typeof value === 'object' && value !== null && 'asymmetricMatch' in value && typeof value.asymmetricMatch === 'function'
}

/** For the text of a failure. With its data: it is a test that reads it. */
export function describeEvent({ destination, message }: PublishedEvent): string {
  const { partitionkey } = message.attributes
  const key = partitionkey === undefined ? '' : `, key '${partitionkey}'`
  return `${message.type} '${message.id}' to '${destination}'${key}: ${shownData(message)}`
}

export function describeExpected({ data, ...named }: ExpectedEvent): string {
  const known = Object.entries(named).filter(([, value]) => value !== undefined)
  const parts = known.map(([name, value]) => `${name} ${JSON.stringify(value)}`)
  if (data !== undefined) parts.push(`data with ${JSON.stringify(data)}`)
  return parts.length === 0 ? 'any event' : `an event with ${parts.join(', ')}`
}

function shownData(message: PublishedEvent['message']): string {
  const data = readData(message)
  return data instanceof Uint8Array ? `${data.byteLength} bytes` : (JSON.stringify(data) ?? 'no data')
}
