import { InvalidOptionError } from '@ackord/core'
import { describeValue } from '@ackord/core/internal'
import type { RedisArgument } from './port.ts'

export type RedisKey = string | Uint8Array

/** An argument of a command. A number must be finite; bytes are passed on as they are. */
export type RedisValue = string | number | bigint | Uint8Array

/** Clients convert `undefined`, objects and arrays to arbitrary strings: here they are refused, by a throw in the caller's stack. */
export function toArgument(command: string, value: RedisValue): RedisArgument {
  if (typeof value === 'string') return value
  if (typeof value === 'number' && Number.isFinite(value)) return String(value)
  if (typeof value === 'bigint') return String(value)
  if (value instanceof Uint8Array) return toBuffer(value)
  const found = typeof value === 'number' ? String(value) : describeValue(value)
  throw new InvalidOptionError(`An argument of ${command}`, `must be a string, a finite number, a bigint or a Uint8Array; it is ${found}.`)
}

export function toKey(command: string, key: RedisKey): RedisArgument {
  if (typeof key === 'string') return key
  if (key instanceof Uint8Array) return toBuffer(key)
  throw new InvalidOptionError(`A key of ${command}`, `must be a string or a Uint8Array; it is ${describeValue(key)}.`)
}

/** Redis would detect an invalid integer only in the middle of a transaction, after other commands have run. */
export function toWhole(command: string, value: number | bigint): string {
  if (typeof value === 'bigint' ? BigInt.asIntN(64, value) === value : Number.isSafeInteger(value)) return String(value)
  const found = typeof value === 'number' || typeof value === 'bigint' ? String(value) : describeValue(value)
  throw new InvalidOptionError(
    `An argument of ${command}`,
    `must be an integer of at most 64 bits, as a bigint if it is large; it is ${found}.`,
  )
}

/** A finite number, or, with `infinite`, also `Infinity`. */
export function toReal(command: string, value: number, { infinite = false }: { readonly infinite?: boolean } = {}): string {
  if (typeof value === 'number' && Number.isFinite(value)) return String(value)
  if (infinite && value === Infinity) return '+inf'
  if (infinite && value === -Infinity) return '-inf'
  const found = typeof value === 'number' ? String(value) : describeValue(value)
  throw new InvalidOptionError(`An argument of ${command}`, `must be a number; it is ${found}.`)
}

/** A view of the same bytes, not a copy. */
export function toBuffer(bytes: Uint8Array): Buffer {
  return Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
}

/** A key or a name in an error message: bytes as text, long ones truncated. */
export function shownKey(key: RedisArgument): string {
  const text = typeof key === 'string' ? key : key.toString('utf8')
  return `'${text.length > 100 ? `${text.slice(0, 100)}…` : text}'`
}
