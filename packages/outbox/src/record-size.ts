import { AckordError, type Attributes, type RawMessage } from '@ackord/core'
import { nameOf } from '@ackord/core/internal'
import type { NewOutboxRecord } from './outbox-store.ts'

/** The default of every store's `maxSize`, in bytes. */
export const defaultMaxSize = 5_242_880

/** As CloudEvents has them in JSON: instants as RFC 3339, bytes as base64. */
export function attributesToJson(attributes: Attributes): string {
  // A replacer would be asked for every one, and hardly any are bytes.
  for (const name in attributes) if (attributes[name] instanceof Uint8Array) return JSON.stringify(withTexts(attributes))
  return JSON.stringify(attributes)
}

/**
 * For stores, before anything is written: throws at a record whose data, attributes and destination have more bytes than that. The broker would
 * refuse it for good, long after its transaction has ended. `attributes`: those of the message, by `attributesToJson()`.
 */
export function checkRecordSize({ destination, message }: NewOutboxRecord, attributes: string, maxSize: number): void {
  const { byteLength } = message.data
  // A unit of a text has three bytes at most: hardly any need be counted.
  if (byteLength + 3 * (attributes.length + destination.length) <= maxSize) return
  const size = byteLength + Buffer.byteLength(attributes) + Buffer.byteLength(destination)
  if (size > maxSize) throw tooLarge(message, size, maxSize)
}

function withTexts(attributes: Attributes): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(attributes).map(([name, value]) => [name, value instanceof Uint8Array ? Buffer.from(value).toString('base64') : value]),
  )
}

function tooLarge(message: RawMessage, size: number, maxSize: number): AckordError {
  const text = `Cannot store ${nameOf(message)} in the outbox: it takes ${size} bytes, and maxSize is ${maxSize}. Store what is large elsewhere, and send where it is.`
  return new AckordError('ACKORD_INVALID_OUTPUT', text, { retryable: false })
}
