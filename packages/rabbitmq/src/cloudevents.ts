import type { AttributeValue } from '@ackord/core'
import { bufferOf, type HeaderCodec, headerCodec } from '@ackord/core/broker'

/**
 * The CloudEvents binding for AMQP. Headers are read with both prefixes and written with the first one: every receiver knows it, and RabbitMQ passes it on
 * to AMQP 1.0 as it is. Values keep their types.
 */
export const attributeHeaders: HeaderCodec<unknown> = headerCodec<unknown>({
  prefix: 'cloudEvents:',
  otherPrefixes: ['cloudEvents_'],
  encodeValue,
  decodeValue,
})

/** AMQP's properties are strings of up to 255 bytes. */
export function isShort(value: unknown): value is string {
  return typeof value === 'string' && Buffer.byteLength(value) <= 255
}

function encodeValue(value: AttributeValue, name: string): unknown {
  // It is the property of that name.
  if (name === 'datacontenttype' && isShort(value)) return undefined
  // AMQP's own timestamps have no fraction.
  if (value instanceof Date) return value.toISOString()
  if (value instanceof Uint8Array) return bufferOf(value)
  // amqplib writes large numbers as 64-bit integers, even those that do not fit, and has no negative zero.
  if (typeof value === 'number' && (!Number.isSafeInteger(value) || Object.is(value, -0))) return { '!': 'double', value }
  return value
}

/** `undefined` for values that CloudEvents has no type for: null, lists, tables. */
function decodeValue(value: unknown): AttributeValue | undefined {
  if (typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean') return value
  if (value instanceof Uint8Array) return new Uint8Array(value)
  return isTimestamp(value) ? instantOf(value.value) : undefined
}

/** How amqplib represents a header of AMQP's type timestamp. */
function isTimestamp(value: unknown): value is { readonly value: unknown } {
  return typeof value === 'object' && value !== null && '!' in value && value['!'] === 'timestamp' && 'value' in value
}

// AMQP counts in seconds, but many producers write milliseconds. In seconds this is the year 5138.
const surelyMilliseconds = 1e11
const latest = 8.64e15

/** An AMQP timestamp as RFC 3339 text; `undefined` if it is none. */
export function instantOf(value: unknown): string | undefined {
  if (typeof value !== 'number') return undefined
  const milliseconds = value < surelyMilliseconds ? value * 1000 : value
  return milliseconds >= 0 && milliseconds <= latest ? new Date(milliseconds).toISOString() : undefined
}
