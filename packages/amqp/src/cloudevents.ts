import type { AttributeValue } from '@ackord/core'
import { bufferOf, type HeaderCodec, headerCodec } from '@ackord/core/broker'
import type { AmqpContainer } from './client.ts'

const prefixes = { prefix: 'cloudEvents:', otherPrefixes: ['cloudEvents_'] }

/**
 * The CloudEvents binding for AMQP. Application properties are read with both prefixes and written with the first one, as the binding for RabbitMQ's AMQP 0-9-1 does:
 * messages pass from one to the other. Values keep their types.
 */
export function attributeProperties({ types }: Pick<AmqpContainer, 'types'>): HeaderCodec<unknown> {
  return headerCodec<unknown>({
    ...prefixes,
    encodeValue(value, name) {
      // It is the property of that name.
      if (name === 'datacontenttype' && isSymbol(value)) return undefined
      // The text has all digits of the fraction, and other bindings read it too.
      if (value instanceof Date) return value.toISOString()
      if (value instanceof Uint8Array) return bufferOf(value)
      if (typeof value !== 'number') return value
      // rhea would write a number that is not a number as null, and drop the sign of zero.
      return Number.isSafeInteger(value) && !Object.is(value, -0) ? types.wrap_long(value) : types.wrap_double(value)
    },
    decodeValue,
  })
}

/** For reading, which needs no encoder. */
export const attributeReader: Pick<HeaderCodec<unknown>, 'read'> = headerCodec<unknown>({
  ...prefixes,
  encodeValue: (value) => value,
  decodeValue,
})

/** Whether a value fits into a property of AMQP's type symbol, which is ASCII. */
export function isSymbol(value: unknown): value is string {
  return typeof value === 'string' && /^[ -~]{1,255}$/.test(value)
}

/** `undefined` for values that CloudEvents has no type for: null, lists, maps, described types. */
function decodeValue(value: unknown): AttributeValue | undefined {
  if (typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean') return value
  if (value instanceof Uint8Array) return new Uint8Array(value)
  return instantOf(value)
}

/** An AMQP timestamp as RFC 3339 text; `undefined` if it is none. */
export function instantOf(value: unknown): string | undefined {
  return value instanceof Date && !Number.isNaN(value.getTime()) ? value.toISOString() : undefined
}
