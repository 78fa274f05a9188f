import { InvalidOptionError } from '@ackord/core'
import { checkName, rejectUnknownOptions } from '@ackord/core/internal'
import { type RedisKey, type RedisValue, toArgument, toKey, toReal, toWhole } from '../client/argument.ts'
import type { RawCommand } from '../client/known-commands.ts'
import type { RedisArgument } from '../client/port.ts'
import type { KeyKind, QueuedCommand } from '../client/queued-command.ts'
import type { RedisWrites } from './redis-writes.ts'
import {
  checkArgumentCount,
  entriesOf,
  isRecord,
  maxArguments,
  nothingToWrite,
  type Reader,
  setArguments,
  toBit,
  toBitOffset,
  toByteOffset,
  toCount,
  toDecrement,
  toEntryId,
  toKeys,
  toLexBound,
  toMilliseconds,
  toNewEntryId,
  toPositiveMilliseconds,
  toPositiveSeconds,
  toScore,
  toScoreBound,
  toSeconds,
  toSide,
} from './write-arguments.ts'

/** Where the commands of a writer go: into a transaction, or to the server at once. */
export interface WriteTarget {
  run(command: QueuedCommand): Promise<void>
  /** Runs a command without a method here, which the server must know. */
  runUnknown(command: RawCommand): Promise<void>
}

type Command<Arguments extends readonly unknown[]> = (target: WriteTarget, ...args: Arguments) => Promise<void>

/** `Parameters` sees only the last overload of a method. */
interface Overloaded {
  readonly hset: [key: RedisKey, fields: RedisValue | Readonly<Record<string, RedisValue>>, value?: RedisValue]
  readonly zadd: [key: RedisKey, members: number | Readonly<Record<string, number>>, member?: RedisValue]
}

type Commands = {
  readonly [Name in keyof RedisWrites]: Command<Name extends keyof Overloaded ? Overloaded[Name] : Parameters<RedisWrites[Name]>>
}

const first: readonly number[] = [0]
const firstTwo: readonly number[] = [0, 1]

/** The methods of `RedisWrites`: the command of Redis, what its keys must hold, and how its arguments are read. */
const commands: Commands = {
  // Strings
  set(target, key, value, options) {
    const args = [toKey('SET', key), toArgument('SET', value)]
    if (options !== undefined) args.push(...setArguments(options))
    return target.run({ name: 'SET', args, keys: first, kind: 'any' })
  },
  setnx: oneKey('SETNX', 'any', toArgument),
  setex: oneKey('SETEX', 'any', toPositiveSeconds, toArgument),
  psetex: oneKey('PSETEX', 'any', toPositiveMilliseconds, toArgument),
  // One SET per key: a transaction makes them atomic anyway, and a command has a limited number of arguments.
  mset(target, values) {
    const pairs = entriesOf('MSET', values).map(([key, value]) => [key, toArgument('MSET', value)])
    return each(pairs, (args) => target.run({ name: 'SET', args, keys: first, kind: 'any' }))
  },
  append: oneKey('APPEND', 'string', toArgument),
  setrange(target, key, offset, value) {
    const text = toArgument('SETRANGE', value)
    const args = [toKey('SETRANGE', key), toByteOffset('SETRANGE', offset, Buffer.byteLength(text)), text]
    return target.run({ name: 'SETRANGE', args, keys: first, kind: 'string' })
  },
  setbit: oneKey('SETBIT', 'string', toBitOffset, toBit),

  // Counters
  incr: oneKey('INCR', 'counter'),
  incrby: oneKey('INCRBY', 'counter', toWhole),
  incrbyfloat: oneKey('INCRBYFLOAT', 'number', toReal),
  decr: oneKey('DECR', 'counter'),
  decrby: oneKey('DECRBY', 'counter', toDecrement),

  // Hashes
  hset(target, key, fields, value) {
    // Values of other types than declared are refused there.
    if (!isRecord(fields)) return setField(target, key, fields as RedisValue, value as RedisValue)
    const pairs = entriesOf<RedisValue>('HSET', fields).map(([field, item]) => [field, toArgument('HSET', item)])
    return inParts(target, 'HSET', 'hash', key, pairs)
  },
  hsetnx: oneKey('HSETNX', 'hash', toArgument, toArgument),
  hdel: several('HDEL', 'hash', toArgument),
  hincrby: oneKey('HINCRBY', 'hash-counter', toArgument, toWhole),
  hincrbyfloat: oneKey('HINCRBYFLOAT', 'hash-number', toArgument, toReal),

  // Lists
  lpush: several('LPUSH', 'list', toArgument),
  rpush: several('RPUSH', 'list', toArgument),
  lpushx: several('LPUSHX', 'list', toArgument),
  rpushx: several('RPUSHX', 'list', toArgument),
  lpop: oneKey('LPOP', 'list'),
  rpop: oneKey('RPOP', 'list'),
  rpoplpush: twoKeys('RPOPLPUSH', 'list'),
  lrem: oneKey('LREM', 'list', toWhole, toArgument),
  lset(target, key, index, value) {
    const args = [toKey('LSET', key), toWhole('LSET', index), toArgument('LSET', value)]
    return target.run({ name: 'LSET', args, keys: first, kind: 'list', mustExist: true })
  },
  ltrim: oneKey('LTRIM', 'list', toWhole, toWhole),
  linsert: oneKey('LINSERT', 'list', toSide, toArgument, toArgument),

  // Sets
  sadd: several('SADD', 'set', toArgument),
  srem: several('SREM', 'set', toArgument),
  smove: twoKeys('SMOVE', 'set', toArgument),
  spop: oneKey('SPOP', 'set'),
  sinterstore: manyKeys('SINTERSTORE', 'sets'),
  sunionstore: manyKeys('SUNIONSTORE', 'sets'),
  sdiffstore: manyKeys('SDIFFSTORE', 'sets'),

  // Sorted sets
  zadd(target, key, members, member) {
    if (!isRecord(members)) return addMember(target, key, members as number, member as RedisValue)
    const pairs = entriesOf<number>('ZADD', members).map(([name, score]) => [toScore('ZADD', score), name])
    return inParts(target, 'ZADD', 'zset', key, pairs)
  },
  zincrby: oneKey('ZINCRBY', 'zset', toReal, toArgument),
  zrem: several('ZREM', 'zset', toArgument),
  zremrangebyrank: oneKey('ZREMRANGEBYRANK', 'zset', toWhole, toWhole),
  zremrangebyscore: oneKey('ZREMRANGEBYSCORE', 'zset', toScoreBound, toScoreBound),
  zremrangebylex: oneKey('ZREMRANGEBYLEX', 'zset', toLexBound, toLexBound),
  zpopmin: oneKey('ZPOPMIN', 'zset'),
  zpopmax: oneKey('ZPOPMAX', 'zset'),
  zunionstore: countedKeys('ZUNIONSTORE'),
  zinterstore: countedKeys('ZINTERSTORE'),

  // Streams
  xadd(target, key, fields, options = {}) {
    const { id = '*', ...unknown } = options
    rejectUnknownOptions('xadd()', unknown)
    const args: RedisArgument[] = [toKey('XADD', key), toNewEntryId('XADD', id)]
    for (const [field, value] of entriesOf('XADD', fields)) args.push(field, toArgument('XADD', value))
    checkArgumentCount('XADD', args.length - 1)
    return target.run({ name: 'XADD', args, keys: first, kind: 'stream' })
  },
  xdel: several('XDEL', 'stream', toEntryId),
  xtrim(target, key, length) {
    return target.run({ name: 'XTRIM', args: [toKey('XTRIM', key), 'MAXLEN', toCount('XTRIM', length)], keys: first, kind: 'stream' })
  },

  // Others
  pfadd: several('PFADD', 'hyperloglog', toArgument),
  pfmerge: manyKeys('PFMERGE', 'hyperloglog'),
  geoadd(target, key, longitude, latitude, member) {
    // The limits of Redis, which would detect others only in the middle of a transaction.
    if (Math.abs(longitude) > 180 || Math.abs(latitude) > 85.05112878) {
      throw new InvalidOptionError('The position of GEOADD', 'must be within 180 degrees of longitude and 85.05112878 of latitude.')
    }
    return addPosition(target, key, longitude, latitude, member)
  },
  bitop(target, operation, to, ...keys) {
    const given = [to, ...keys].map((key) => toKey('BITOP', key))
    const isComplete = operation === 'NOT' ? given.length === 2 : given.length >= 2
    if (!['AND', 'OR', 'XOR', 'NOT'].includes(operation) || !isComplete) {
      throw new InvalidOptionError('BITOP', "needs 'AND', 'OR' or 'XOR' with at least one source key, or 'NOT' with exactly one.")
    }
    return target.run({ name: 'BITOP', args: [operation, ...given], keys: given.map((_, index) => index + 1), kind: 'strings' })
  },

  // Keys
  del: eachKey('DEL'),
  unlink: eachKey('UNLINK'),
  expire: oneKey('EXPIRE', 'any', toSeconds),
  pexpire: oneKey('PEXPIRE', 'any', toMilliseconds),
  expireat: oneKey('EXPIREAT', 'any', toSeconds),
  pexpireat: oneKey('PEXPIREAT', 'any', toMilliseconds),
  persist: oneKey('PERSIST', 'any'),
  rename: renaming('RENAME'),
  renamenx: renaming('RENAMENX'),

  raw(target, name, keys, ...args) {
    checkName('raw(name)', name)
    const command = name.toUpperCase()
    if (!Array.isArray(keys) || keys.length === 0) {
      throw new InvalidOptionError(`raw('${command}', keys)`, 'must be a non-empty array of keys.')
    }
    const given = keys.map((key: RedisKey) => toKey(command, key))
    const words = [...given, ...args.map((value) => toArgument(command, value))]
    checkArgumentCount(command, words.length)
    return target.runUnknown({ name: command, args: words, keys: given.map((_, index) => index), kind: 'any' })
  },
}

/** A key, and then an argument for each reader. */
function oneKey<Arguments extends readonly unknown[]>(
  name: string,
  kind: KeyKind,
  ...readers: { readonly [Index in keyof Arguments]: Reader<Arguments[Index]> }
): Command<[key: RedisKey, ...Arguments]> {
  return (target, key, ...values) => {
    const args = [toKey(name, key)]
    for (let index = 0; index < readers.length; index += 1) args.push((readers[index] as Reader<unknown>)(name, values[index]))
    return target.run({ name, args, keys: first, kind })
  }
}

const setField = oneKey('HSET', 'hash', toArgument, toArgument)
const addMember = oneKey('ZADD', 'zset', toScore, toArgument)
const addPosition = oneKey('GEOADD', 'zset', toReal, toReal, toArgument)

/** Two keys, and then an argument for each reader. */
function twoKeys<Arguments extends readonly unknown[]>(
  name: string,
  kind: KeyKind,
  ...readers: { readonly [Index in keyof Arguments]: Reader<Arguments[Index]> }
): Command<[from: RedisKey, to: RedisKey, ...Arguments]> {
  return (target, from, to, ...values) => {
    const args = [toKey(name, from), toKey(name, to), ...readers.map((read, index) => read(name, values[index]))]
    return target.run({ name, args, keys: firstTwo, kind })
  }
}

function renaming(name: string): Command<[key: RedisKey, to: RedisKey]> {
  return (target, key, to) => {
    return target.run({ name, args: [toKey(name, key), toKey(name, to)], keys: firstTwo, kind: 'any', mustExist: true })
  }
}

/** A key and any number of values, in as many commands as they need. */
function several<Value>(name: string, kind: KeyKind, read: Reader<Value>): Command<[key: RedisKey, ...values: readonly Value[]]> {
  return (target, key, ...values) => {
    return inParts(
      target,
      name,
      kind,
      key,
      values.map((value) => [read(name, value)]),
    )
  }
}

/** The key to write to and those to read from. */
function manyKeys(name: string, kind: KeyKind): Command<[to: RedisKey, ...keys: readonly RedisKey[]]> {
  return (target, to, ...keys) => {
    const args = toKeys(name, [to, ...keys])
    if (args.length < 2) throw new InvalidOptionError(name, 'needs a key to write to and at least one to read from.')
    return target.run({ name, args, keys: args.map((_, index) => index), kind })
  }
}

/** The same with the number of keys between them. */
function countedKeys(name: string): Command<[to: RedisKey, ...keys: readonly RedisKey[]]> {
  return (target, to, ...keys) => {
    const given = toKeys(name, keys)
    const args = [toKey(name, to), String(given.length), ...given]
    return target.run({ name, args, keys: [0, ...given.map((_, index) => index + 2)], kind: 'members' })
  }
}

function eachKey(name: string): Command<readonly RedisKey[]> {
  return (target, ...keys) => each(toKeys(name, keys), (key) => target.run({ name, args: [key], keys: first, kind: 'any' }))
}

function inParts(
  target: WriteTarget,
  name: string,
  kind: KeyKind,
  key: RedisKey,
  items: readonly (readonly RedisArgument[])[],
): Promise<void> {
  const [one] = items
  if (one === undefined) throw nothingToWrite(name)
  const keyArgument = toKey(name, key)
  const run = (part: typeof items) => target.run({ name, args: [keyArgument, ...part.flat()], keys: first, kind })
  const size = Math.floor(maxArguments / one.length)
  if (items.length <= size) return run(items)
  const parts = Array.from({ length: Math.ceil(items.length / size) }, (_, index) => items.slice(index * size, (index + 1) * size))
  return each(parts, run)
}

function each<T>(items: readonly T[], run: (item: T) => Promise<void>): Promise<void> {
  return Promise.all(items.map(run)).then(() => {})
}

/** Has its methods from the table. A writer is made per transaction: with a prototype, that costs one object. */
class Writer {
  readonly #target: WriteTarget

  static {
    for (const [name, command] of Object.entries(commands)) {
      const method = function (this: Writer, ...args: never[]): Promise<void> {
        // The arguments of the method that the table has under this name.
        return (command as Command<never[]>)(this.#target, ...args)
      }
      Object.defineProperty(Writer.prototype, name, { value: method })
    }
  }

  constructor(target: WriteTarget) {
    this.#target = target
  }
}

export function createWriter(target: WriteTarget): RedisWrites {
  // The table has all of them.
  return new Writer(target) as unknown as RedisWrites
}
