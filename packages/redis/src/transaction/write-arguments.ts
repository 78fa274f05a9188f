import { InvalidOptionError } from '@ackord/core'
import { describeValue, rejectUnknownOptions } from '@ackord/core/internal'
import { type RedisKey, type RedisValue, toArgument, toKey, toReal, toWhole } from '../client/argument.ts'
import type { RedisArgument } from '../client/port.ts'
import type { SetOptions } from './redis-writes.ts'

// Redis would detect these errors only in the middle of a transaction, after other commands have run.

/** Turns a value into an argument of the command with this name. Throws if it is invalid. */
export type Reader<T> = (name: string, value: T) => RedisArgument

export type Integer = number | bigint

/** Lua cannot pass on more than about 8,000 arguments, and would fail after other commands have run. */
export const maxArguments = 4_000

const maxStringLength = 512 * 1024 * 1024
const maxMilliseconds = 2n ** 62n
const maxSeconds = maxMilliseconds / 1000n

/** Redis turns durations and instants into milliseconds since 1970, in 64 bits. */
export const toMilliseconds: Reader<Integer> = (name, value) => toTime(name, value, maxMilliseconds)
export const toSeconds: Reader<Integer> = (name, value) => toTime(name, value, maxSeconds)
export const toPositiveMilliseconds: Reader<Integer> = (name, value) => toPositive(name, value, maxMilliseconds)
export const toPositiveSeconds: Reader<Integer> = (name, value) => toPositive(name, value, maxSeconds)

function toTime(name: string, value: Integer, max: bigint): RedisArgument {
  if (value <= max && value >= -max) return toWhole(name, value)
  throw new InvalidOptionError(`A time of ${name}`, `must be from -${max} to ${max}; it is ${String(value)}.`)
}

function toPositive(name: string, value: Integer, max: bigint): RedisArgument {
  if (value > 0) return toTime(name, value, max)
  throw new InvalidOptionError(`A duration of ${name}`, `must be an integer, 1 or more; it is ${String(value)}.`)
}

/** An offset of a value in a string. */
export function toByteOffset(name: string, offset: Integer, length: number): RedisArgument {
  return toOffset(name, offset, maxStringLength - length)
}

export const toBitOffset: Reader<Integer> = (name, offset) => toOffset(name, offset, maxStringLength * 8 - 1)

export const toCount: Reader<Integer> = (name, count) => toOffset(name, count, undefined)

function toOffset(name: string, value: Integer, max: number | undefined): RedisArgument {
  if (value >= 0 && (max === undefined || value <= max)) return toWhole(name, value)
  const limit = max === undefined ? '0 or more' : `from 0 to ${max}, because a Redis string has at most 512 MB`
  throw new InvalidOptionError(`An argument of ${name}`, `must be an integer, ${limit}; it is ${String(value)}.`)
}

export const toBit: Reader<0 | 1> = (name, bit) => {
  if (bit === 0 || bit === 1) return String(bit)
  throw new InvalidOptionError(`An argument of ${name}`, 'must be 0 or 1.')
}

/** Redis negates it, and -2^63 has no opposite. */
export const toDecrement: Reader<Integer> = (name, amount) => {
  if (amount === -(2n ** 63n)) throw new InvalidOptionError(`An argument of ${name}`, 'must be more than -2^63.')
  return toWhole(name, amount)
}

export const toSide: Reader<'BEFORE' | 'AFTER'> = (name, side) => {
  if (side === 'BEFORE' || side === 'AFTER') return side
  throw new InvalidOptionError(`An argument of ${name}`, "must be 'BEFORE' or 'AFTER'.")
}

export const toScore: Reader<number> = (name, score) => toReal(name, score, { infinite: true })
export const toScoreBound: Reader<RedisValue> = formOf(/^\(?(?:[+-]?inf|[+-]?\d+(?:\.\d+)?(?:e[+-]?\d+)?)$/i)
export const toLexBound: Reader<RedisValue> = formOf(/^(?:[-+]$|[([])/s)
const toIdForm = formOf(/^\d+(?:-\d+)?$/)

function formOf(form: RegExp): Reader<RedisValue> {
  return (name, value) => {
    const argument = toArgument(name, value)
    if (form.test(String(argument))) return argument
    throw new InvalidOptionError(`An argument of ${name}`, 'does not have the form that the command accepts.')
  }
}

/** The id of a stream entry: one or two numbers of 64 bits. */
export const toEntryId: Reader<string> = (name, id) => {
  const argument = toIdForm(name, id)
  if (id.split('-').every((part) => BigInt(part) < 2n ** 64n)) return argument
  throw new InvalidOptionError(`An id of ${name}`, `must be two numbers of at most 64 bits; it is ${id.slice(0, 100)}.`)
}

/** The id of a new entry; `*` lets the server make one. */
export const toNewEntryId: Reader<string> = (name, id) => {
  if (id === '*') return id
  const argument = toEntryId(name, id)
  if (/^0+(?:-0+)?$/.test(id)) throw new InvalidOptionError(`The id of ${name}`, 'must be more than 0-0.')
  return argument
}

export function toKeys(name: string, keys: readonly RedisKey[]): RedisArgument[] {
  if (keys.length === 0) throw new InvalidOptionError(name, 'needs at least one key.')
  checkArgumentCount(name, keys.length)
  return keys.map((key) => toKey(name, key))
}

export function checkArgumentCount(name: string, count: number): void {
  if (count > maxArguments) throw new InvalidOptionError(name, `has ${count} arguments; at most ${maxArguments} are allowed.`)
}

export function setArguments({ expiry, only, keepExpiry, ...unknown }: SetOptions): RedisArgument[] {
  rejectUnknownOptions('set()', unknown)
  const words: RedisArgument[] = []
  if (expiry !== undefined) words.push('PX', toPositiveMilliseconds('SET', expiry))
  if (keepExpiry === true) words.push('KEEPTTL')
  if (only !== undefined) words.push(only === 'missing' ? 'NX' : 'XX')
  if (only !== undefined && only !== 'missing' && only !== 'present')
    throw new InvalidOptionError('only', "must be 'missing' or 'present'.")
  if (expiry !== undefined && keepExpiry === true) throw new InvalidOptionError('keepExpiry', 'cannot be combined with expiry.')
  return words
}

export function isRecord(value: unknown): value is Readonly<Record<string, never>> {
  if (typeof value !== 'object' || value === null) return false
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === Object.prototype || prototype === null
}

export function entriesOf<V>(name: string, fields: Readonly<Record<string, V>>): [string, V][] {
  if (!isRecord(fields)) throw new InvalidOptionError(`The fields of ${name}`, `must be a plain object; they are ${describeValue(fields)}.`)
  const entries = Object.entries(fields)
  if (entries.length === 0) throw nothingToWrite(name)
  return entries
}

export function nothingToWrite(name: string): InvalidOptionError {
  return new InvalidOptionError(name, 'has nothing to write.')
}
