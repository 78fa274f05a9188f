import { InvalidOptionError } from '@ackord/core'
import { checkName, checkNoMore, describeValue } from '@ackord/core/internal'
import { type RedisKey, type RedisValue, toArgument, toKey, toReal, toWhole } from '../client/argument.ts'
import type { RawCommand } from '../client/known-commands.ts'
import type { RedisArgument } from '../client/port.ts'
import type { KeyKind, QueuedCommand } from '../client/queued-command.ts'
import type { RedisWrites, SetOptions, StreamAddOptions } from './redis-writes.ts'

export interface WriteTarget {
  run(command: QueuedCommand): Promise<void>
  /** For one that has no method, of which the server has to be asked. */
  runUnknown(command: RawCommand): Promise<void>
}

type Whole = number | bigint

/** Lua cannot hand on more than some 8,000 arguments, and would find out when others have been carried out. */
const mostArguments = 4_000

const first: readonly number[] = [0]
const firstTwo: readonly number[] = [0, 1]

/** Turns calls into commands, with the places of their keys and what these must hold. */
export class RedisWriter implements RedisWrites {
  readonly #target: WriteTarget

  constructor(target: WriteTarget) {
    this.#target = target
  }

  set(key: RedisKey, value: RedisValue, options?: SetOptions): Promise<void> {
    const args = [toKey('SET', key), toArgument('SET', value)]
    if (options !== undefined) args.push(...setOptions(options))
    return this.#target.run({ name: 'SET', args, keys: first, kind: 'any' })
  }

  setnx(key: RedisKey, value: RedisValue): Promise<void> {
    return this.#values('SETNX', 'any', key, [value])
  }

  setex(key: RedisKey, seconds: Whole, value: RedisValue): Promise<void> {
    return this.#words('SETEX', 'any', key, [toPositive('SETEX', seconds, maxSeconds), toArgument('SETEX', value)])
  }

  psetex(key: RedisKey, milliseconds: Whole, value: RedisValue): Promise<void> {
    return this.#words('PSETEX', 'any', key, [toPositive('PSETEX', milliseconds), toArgument('PSETEX', value)])
  }

  /** It is one transaction anyway, so that it may be several. */
  mset(values: Readonly<Record<string, RedisValue>>): Promise<void> {
    const commands = entriesOf('MSET', values).map(([key, value]) => ({ key, value: toArgument('MSET', value) }))
    return this.#each(commands, ({ key, value }) => this.#words('SET', 'any', key, [value]))
  }

  append(key: RedisKey, value: RedisValue): Promise<void> {
    return this.#values('APPEND', 'string', key, [value])
  }

  setrange(key: RedisKey, offset: Whole, value: RedisValue): Promise<void> {
    const text = toArgument('SETRANGE', value)
    const most = maxStringLength - Buffer.byteLength(text)
    return this.#words('SETRANGE', 'string', key, [toOffset('SETRANGE', offset, most), text])
  }

  setbit(key: RedisKey, offset: Whole, bit: 0 | 1): Promise<void> {
    if (bit !== 0 && bit !== 1) throw new InvalidOptionError('An argument of SETBIT', 'must be 0 or 1.')
    return this.#words('SETBIT', 'string', key, [toOffset('SETBIT', offset, maxStringLength * 8 - 1), String(bit)])
  }

  incr(key: RedisKey): Promise<void> {
    return this.#words('INCR', 'counter', key, [])
  }

  incrby(key: RedisKey, amount: Whole): Promise<void> {
    return this.#words('INCRBY', 'counter', key, [toWhole('INCRBY', amount)])
  }

  incrbyfloat(key: RedisKey, amount: number): Promise<void> {
    return this.#words('INCRBYFLOAT', 'number', key, [toReal('INCRBYFLOAT', amount)])
  }

  decr(key: RedisKey): Promise<void> {
    return this.#words('DECR', 'counter', key, [])
  }

  decrby(key: RedisKey, amount: Whole): Promise<void> {
    // Redis turns the sign round, and that one has no opposite.
    if (amount === -(2n ** 63n)) throw new InvalidOptionError('An argument of DECRBY', 'must be more than -2^63.')
    return this.#words('DECRBY', 'counter', key, [toWhole('DECRBY', amount)])
  }

  hset(key: RedisKey, fields: RedisValue | Readonly<Record<string, RedisValue>>, value?: RedisValue): Promise<void> {
    // Whether they are values is looked at there, whatever their types say.
    if (!isRecord(fields)) return this.#values('HSET', 'hash', key, [fields as RedisValue, value as RedisValue])
    const pairs = entriesOf<RedisValue>('HSET', fields).map(([field, item]) => [field, toArgument('HSET', item)] as const)
    return this.#parts('HSET', 'hash', key, pairs)
  }

  hsetnx(key: RedisKey, field: RedisValue, value: RedisValue): Promise<void> {
    return this.#values('HSETNX', 'hash', key, [field, value])
  }

  hdel(key: RedisKey, ...fields: readonly RedisValue[]): Promise<void> {
    return this.#several('HDEL', 'hash', key, fields)
  }

  hincrby(key: RedisKey, field: RedisValue, amount: Whole): Promise<void> {
    return this.#words('HINCRBY', 'hash-counter', key, [toArgument('HINCRBY', field), toWhole('HINCRBY', amount)])
  }

  hincrbyfloat(key: RedisKey, field: RedisValue, amount: number): Promise<void> {
    return this.#words('HINCRBYFLOAT', 'hash-number', key, [toArgument('HINCRBYFLOAT', field), toReal('HINCRBYFLOAT', amount)])
  }

  lpush(key: RedisKey, ...values: readonly RedisValue[]): Promise<void> {
    return this.#several('LPUSH', 'list', key, values)
  }

  rpush(key: RedisKey, ...values: readonly RedisValue[]): Promise<void> {
    return this.#several('RPUSH', 'list', key, values)
  }

  lpushx(key: RedisKey, ...values: readonly RedisValue[]): Promise<void> {
    return this.#several('LPUSHX', 'list', key, values)
  }

  rpushx(key: RedisKey, ...values: readonly RedisValue[]): Promise<void> {
    return this.#several('RPUSHX', 'list', key, values)
  }

  lpop(key: RedisKey): Promise<void> {
    return this.#words('LPOP', 'list', key, [])
  }

  rpop(key: RedisKey): Promise<void> {
    return this.#words('RPOP', 'list', key, [])
  }

  rpoplpush(from: RedisKey, to: RedisKey): Promise<void> {
    return this.#two('RPOPLPUSH', 'list', from, to, [])
  }

  lrem(key: RedisKey, count: Whole, value: RedisValue): Promise<void> {
    return this.#words('LREM', 'list', key, [toWhole('LREM', count), toArgument('LREM', value)])
  }

  lset(key: RedisKey, index: Whole, value: RedisValue): Promise<void> {
    const args = [toKey('LSET', key), toWhole('LSET', index), toArgument('LSET', value)]
    return this.#target.run({ name: 'LSET', args, keys: first, kind: 'list', mustExist: true })
  }

  ltrim(key: RedisKey, start: Whole, stop: Whole): Promise<void> {
    return this.#words('LTRIM', 'list', key, [toWhole('LTRIM', start), toWhole('LTRIM', stop)])
  }

  linsert(key: RedisKey, place: 'BEFORE' | 'AFTER', pivot: RedisValue, value: RedisValue): Promise<void> {
    if (place !== 'BEFORE' && place !== 'AFTER') throw new InvalidOptionError('An argument of LINSERT', "must be 'BEFORE' or 'AFTER'.")
    return this.#values('LINSERT', 'list', key, [place, pivot, value])
  }

  sadd(key: RedisKey, ...members: readonly RedisValue[]): Promise<void> {
    return this.#several('SADD', 'set', key, members)
  }

  srem(key: RedisKey, ...members: readonly RedisValue[]): Promise<void> {
    return this.#several('SREM', 'set', key, members)
  }

  smove(from: RedisKey, to: RedisKey, member: RedisValue): Promise<void> {
    return this.#two('SMOVE', 'set', from, to, [toArgument('SMOVE', member)])
  }

  spop(key: RedisKey): Promise<void> {
    return this.#words('SPOP', 'set', key, [])
  }

  sinterstore(to: RedisKey, ...keys: readonly RedisKey[]): Promise<void> {
    return this.#allKeys('SINTERSTORE', 'sets', [to, ...keys])
  }

  sunionstore(to: RedisKey, ...keys: readonly RedisKey[]): Promise<void> {
    return this.#allKeys('SUNIONSTORE', 'sets', [to, ...keys])
  }

  sdiffstore(to: RedisKey, ...keys: readonly RedisKey[]): Promise<void> {
    return this.#allKeys('SDIFFSTORE', 'sets', [to, ...keys])
  }

  zadd(key: RedisKey, members: number | Readonly<Record<string, number>>, member?: RedisValue): Promise<void> {
    if (!isRecord(members)) {
      const score = toReal('ZADD', members as number, { infinite: true })
      return this.#words('ZADD', 'zset', key, [score, toArgument('ZADD', member as RedisValue)])
    }
    const pairs = entriesOf<number>('ZADD', members).map(([name, score]) => [toReal('ZADD', score, { infinite: true }), name] as const)
    return this.#parts('ZADD', 'zset', key, pairs)
  }

  zincrby(key: RedisKey, amount: number, member: RedisValue): Promise<void> {
    return this.#words('ZINCRBY', 'zset', key, [toReal('ZINCRBY', amount), toArgument('ZINCRBY', member)])
  }

  zrem(key: RedisKey, ...members: readonly RedisValue[]): Promise<void> {
    return this.#several('ZREM', 'zset', key, members)
  }

  zremrangebyrank(key: RedisKey, start: Whole, stop: Whole): Promise<void> {
    return this.#words('ZREMRANGEBYRANK', 'zset', key, [toWhole('ZREMRANGEBYRANK', start), toWhole('ZREMRANGEBYRANK', stop)])
  }

  zremrangebyscore(key: RedisKey, min: RedisValue, max: RedisValue): Promise<void> {
    return this.#words('ZREMRANGEBYSCORE', 'zset', key, [
      toBorder('ZREMRANGEBYSCORE', min, score),
      toBorder('ZREMRANGEBYSCORE', max, score),
    ])
  }

  zremrangebylex(key: RedisKey, min: RedisValue, max: RedisValue): Promise<void> {
    return this.#words('ZREMRANGEBYLEX', 'zset', key, [toBorder('ZREMRANGEBYLEX', min, lex), toBorder('ZREMRANGEBYLEX', max, lex)])
  }

  zpopmin(key: RedisKey): Promise<void> {
    return this.#words('ZPOPMIN', 'zset', key, [])
  }

  zpopmax(key: RedisKey): Promise<void> {
    return this.#words('ZPOPMAX', 'zset', key, [])
  }

  zunionstore(to: RedisKey, ...keys: readonly RedisKey[]): Promise<void> {
    return this.#counted('ZUNIONSTORE', to, keys)
  }

  zinterstore(to: RedisKey, ...keys: readonly RedisKey[]): Promise<void> {
    return this.#counted('ZINTERSTORE', to, keys)
  }

  xadd(key: RedisKey, fields: Readonly<Record<string, RedisValue>>, options: StreamAddOptions = {}): Promise<void> {
    const { id = '*', ...unknown } = options
    checkNoMore('xadd()', unknown)
    const words: RedisArgument[] = [id === '*' ? id : toEntryId('XADD', id)]
    if (/^0+(?:-0+)?$/.test(id)) throw new InvalidOptionError('The id of XADD', 'must be more than 0-0.')
    for (const [field, value] of entriesOf('XADD', fields)) words.push(field, toArgument('XADD', value))
    checkCountOf('XADD', words.length)
    return this.#words('XADD', 'stream', key, words)
  }

  xdel(key: RedisKey, ...ids: readonly string[]): Promise<void> {
    for (const id of ids) toEntryId('XDEL', id)
    return this.#several('XDEL', 'stream', key, ids)
  }

  xtrim(key: RedisKey, length: Whole): Promise<void> {
    return this.#words('XTRIM', 'stream', key, ['MAXLEN', toOffset('XTRIM', length)])
  }

  pfadd(key: RedisKey, ...elements: readonly RedisValue[]): Promise<void> {
    return this.#several('PFADD', 'hyperloglog', key, elements)
  }

  pfmerge(to: RedisKey, ...keys: readonly RedisKey[]): Promise<void> {
    return this.#allKeys('PFMERGE', 'hyperloglog', [to, ...keys])
  }

  geoadd(key: RedisKey, longitude: number, latitude: number, member: RedisValue): Promise<void> {
    // What Redis knows of the earth; it would find out in the middle.
    if (Math.abs(longitude) > 180 || Math.abs(latitude) > 85.05112878) {
      throw new InvalidOptionError('The place of GEOADD', 'must be within 180 degrees of longitude and 85.05112878 of latitude.')
    }
    const words = [toReal('GEOADD', longitude), toReal('GEOADD', latitude), toArgument('GEOADD', member)]
    return this.#words('GEOADD', 'zset', key, words)
  }

  bitop(operation: 'AND' | 'OR' | 'XOR' | 'NOT', to: RedisKey, ...keys: readonly RedisKey[]): Promise<void> {
    const given = [to, ...keys].map((key) => toKey('BITOP', key))
    const wanted = operation === 'NOT' ? given.length === 2 : given.length >= 2
    if (!['AND', 'OR', 'XOR', 'NOT'].includes(operation) || !wanted) {
      throw new InvalidOptionError('BITOP', "takes 'AND', 'OR', 'XOR' and keys, or 'NOT' and one key, after the one it writes to.")
    }
    return this.#target.run({ name: 'BITOP', args: [operation, ...given], keys: given.map((_, index) => index + 1), kind: 'strings' })
  }

  del(...keys: readonly RedisKey[]): Promise<void> {
    return this.#each(toKeys('DEL', keys), (key) => this.#words('DEL', 'any', key, []))
  }

  unlink(...keys: readonly RedisKey[]): Promise<void> {
    return this.#each(toKeys('UNLINK', keys), (key) => this.#words('UNLINK', 'any', key, []))
  }

  expire(key: RedisKey, seconds: Whole): Promise<void> {
    return this.#words('EXPIRE', 'any', key, [toTime('EXPIRE', seconds, maxSeconds)])
  }

  pexpire(key: RedisKey, milliseconds: Whole): Promise<void> {
    return this.#words('PEXPIRE', 'any', key, [toTime('PEXPIRE', milliseconds, maxMilliseconds)])
  }

  expireat(key: RedisKey, seconds: Whole): Promise<void> {
    return this.#words('EXPIREAT', 'any', key, [toTime('EXPIREAT', seconds, maxSeconds)])
  }

  pexpireat(key: RedisKey, milliseconds: Whole): Promise<void> {
    return this.#words('PEXPIREAT', 'any', key, [toTime('PEXPIREAT', milliseconds, maxMilliseconds)])
  }

  persist(key: RedisKey): Promise<void> {
    return this.#words('PERSIST', 'any', key, [])
  }

  rename(key: RedisKey, to: RedisKey): Promise<void> {
    return this.#two('RENAME', 'any', key, to, [], true)
  }

  renamenx(key: RedisKey, to: RedisKey): Promise<void> {
    return this.#two('RENAMENX', 'any', key, to, [], true)
  }

  raw(name: string, keys: readonly RedisKey[], ...args: readonly RedisValue[]): Promise<void> {
    checkName('raw(name)', name)
    const command = name.toUpperCase()
    if (!Array.isArray(keys) || keys.length === 0) throw new InvalidOptionError(`raw('${command}', keys)`, 'must be an array of keys.')
    const given = keys.map((key: RedisKey) => toKey(command, key))
    const words = [...given, ...args.map((value) => toArgument(command, value))]
    checkCountOf(command, words.length)
    return this.#target.runUnknown({ name: command, args: words, keys: given.map((_, index) => index), kind: 'any' })
  }

  #words(name: string, kind: KeyKind, key: RedisKey, words: readonly RedisArgument[]): Promise<void> {
    return this.#target.run({ name, args: [toKey(name, key), ...words], keys: first, kind })
  }

  #values(name: string, kind: KeyKind, key: RedisKey, values: readonly RedisValue[]): Promise<void> {
    const args = [toKey(name, key)]
    for (const value of values) args.push(toArgument(name, value))
    return this.#target.run({ name, args, keys: first, kind })
  }

  /** Any number of values, in as many commands as they need. */
  #several(name: string, kind: KeyKind, key: RedisKey, values: readonly RedisValue[]): Promise<void> {
    if (values.length > 0 && values.length <= mostArguments) return this.#values(name, kind, key, values)
    return this.#parts(
      name,
      kind,
      key,
      values.map((value) => [toArgument(name, value)]),
    )
  }

  #parts(name: string, kind: KeyKind, key: RedisKey, items: readonly (readonly RedisArgument[])[]): Promise<void> {
    const [one] = items
    if (one === undefined) throw new InvalidOptionError(name, 'was given nothing to write.')
    const most = Math.floor(mostArguments / one.length)
    if (items.length <= most) return this.#words(name, kind, key, items.flat())
    const parts = Array.from({ length: Math.ceil(items.length / most) }, (_, index) => items.slice(index * most, (index + 1) * most).flat())
    return this.#each(parts, (part) => this.#words(name, kind, key, part))
  }

  #two(name: string, kind: KeyKind, one: RedisKey, other: RedisKey, words: readonly RedisArgument[], mustExist = false): Promise<void> {
    return this.#target.run({ name, args: [toKey(name, one), toKey(name, other), ...words], keys: firstTwo, kind, mustExist })
  }

  #allKeys(name: string, kind: KeyKind, keys: readonly RedisKey[]): Promise<void> {
    const args = toKeys(name, keys)
    if (args.length < 2) throw new InvalidOptionError(name, 'needs a key to write to and at least one to read from.')
    return this.#target.run({ name, args, keys: args.map((_, index) => index), kind })
  }

  #counted(name: string, to: RedisKey, keys: readonly RedisKey[]): Promise<void> {
    const given = toKeys(name, keys)
    const args = [toKey(name, to), String(given.length), ...given]
    return this.#target.run({ name, args, keys: [0, ...given.map((_, index) => index + 2)], kind: 'members' })
  }

  #each<T>(items: readonly T[], run: (item: T) => Promise<void>): Promise<void> {
    return Promise.all(items.map(run)).then(() => {})
  }
}

function toKeys(name: string, keys: readonly RedisKey[]): RedisArgument[] {
  if (keys.length === 0) throw new InvalidOptionError(name, 'was given no key.')
  checkCountOf(name, keys.length)
  return keys.map((key) => toKey(name, key))
}

function checkCountOf(name: string, count: number): void {
  if (count > mostArguments)
    throw new InvalidOptionError(name, `has ${count} arguments; ${mostArguments} are the most that one command takes here.`)
}

function setOptions({ expiry, only, keepExpiry, ...unknown }: SetOptions): string[] {
  checkNoMore('set()', unknown)
  const words: string[] = []
  if (expiry !== undefined) words.push('PX', toPositive('SET', expiry))
  if (keepExpiry === true) words.push('KEEPTTL')
  if (only !== undefined) words.push(only === 'missing' ? 'NX' : 'XX')
  if (only !== undefined && only !== 'missing' && only !== 'present')
    throw new InvalidOptionError('only', "must be 'missing' or 'present'.")
  if (expiry !== undefined && keepExpiry === true) throw new InvalidOptionError('keepExpiry', 'cannot be together with expiry.')
  return words
}

// What Redis would find out in the middle of a transaction: the limits of its strings, and of its clock.
const maxStringLength = 512 * 1024 * 1024
const maxMilliseconds = 2n ** 62n
const maxSeconds = maxMilliseconds / 1000n

/** A duration or an instant, which Redis turns into milliseconds since 1970 of 64 bits. */
function toTime(name: string, value: Whole, most: bigint): string {
  if (value <= most && value >= -most) return toWhole(name, value)
  throw new InvalidOptionError(`A time of ${name}`, `must be within ${most} of 0; it is ${String(value)}.`)
}

function toPositive(name: string, value: Whole, most: bigint = maxMilliseconds): string {
  if (value > 0) return toTime(name, value, most)
  throw new InvalidOptionError(`A duration of ${name}`, `must be a whole number, 1 or more; it is ${String(value)}.`)
}

function toOffset(name: string, value: Whole, most?: number): string {
  if (value >= 0 && (most === undefined || value <= most)) return toWhole(name, value)
  const limit = most === undefined ? '0 or more' : `from 0 to ${most}, because a string of Redis has at most 512 MB`
  throw new InvalidOptionError(`An argument of ${name}`, `must be a whole number, ${limit}; it is ${String(value)}.`)
}

// What Redis would find out in the middle of a transaction.
const score = /^\(?(?:[+-]?inf|[+-]?\d+(?:\.\d+)?(?:e[+-]?\d+)?)$/i
const lex = /^(?:[-+]$|[([])/s
const entry = /^\d+(?:-\d+)?$/

/** Both of its numbers have 64 bits. */
function toEntryId(name: string, id: string): RedisArgument {
  const argument = toBorder(name, id, entry)
  if (id.split('-').every((part) => BigInt(part) < 2n ** 64n)) return argument
  throw new InvalidOptionError(`An id of ${name}`, `must be two numbers of at most 64 bits; it is ${id.slice(0, 100)}.`)
}

function toBorder(name: string, value: RedisValue, form: RegExp): RedisArgument {
  const argument = toArgument(name, value)
  if (form.test(String(argument))) return argument
  throw new InvalidOptionError(`An argument of ${name}`, 'is not of the form that the command takes.')
}

function isRecord(value: unknown): value is Readonly<Record<string, never>> {
  if (typeof value !== 'object' || value === null) return false
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === Object.prototype || prototype === null
}

function entriesOf<V>(name: string, fields: Readonly<Record<string, V>>): [string, V][] {
  if (!isRecord(fields)) throw new InvalidOptionError(`The fields of ${name}`, `must be a plain object; they are ${describeValue(fields)}.`)
  const entries = Object.entries(fields)
  if (entries.length === 0) throw new InvalidOptionError(name, 'was given nothing to write.')
  return entries
}
