import { AckordError } from '@ackord/core'
import { endsConnection, errorNumberOf } from './mysql-error.ts'

/** A parameter of ours as it is sent. Texts go as bytes, so that no character set of the connection changes them. */
export function toWire(value: unknown): unknown {
  if (typeof value === 'string') return Buffer.from(value)
  return value instanceof Uint8Array ? Buffer.from(value.buffer, value.byteOffset, value.byteLength) : value
}

/** Of a statement, in bytes, as far as it matters: of a text that is not sent yet, its characters. */
export function sizeOf(sql: string, values: readonly unknown[]): number {
  return values.reduce<number>((bytes, value) => bytes + lengthOf(value), sql.length)
}

function lengthOf(value: unknown): number {
  if (value instanceof Uint8Array) return value.byteLength
  return typeof value === 'string' ? value.length : 8
}

/** A server answers a statement that is too large by closing the connection, and it may be that only the closing is seen. */
export function explainSize(error: unknown, size: number): unknown {
  const tooLarge = errorNumberOf(error) === 1153 || (endsConnection(error) && size > 1024 * 1024)
  if (!tooLarge) return error
  const text = `The server closed the connection at a statement of ${size} bytes. It takes no more than its max_allowed_packet: raise that, or make the event smaller.`
  return Object.assign(new AckordError('ACKORD_INVALID_OUTPUT', text, { cause: error }), { fatal: true })
}
