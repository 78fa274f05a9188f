import type { RedisKey, RedisValue } from '../client/argument.ts'

type Key = RedisKey
type Value = RedisValue
type Whole = number | bigint

export interface SetOptions {
  /** Milliseconds after which the key expires. Default: never. */
  readonly expiry?: number | undefined
  /** Only if the key is `missing`, or only if it is `present`. Default: always. */
  readonly only?: 'missing' | 'present' | undefined
  /** Whether the key keeps its expiry. Default: false. */
  readonly keepExpiry?: boolean | undefined
}

export interface StreamAddOptions {
  /** Default: `*`, and the server makes one. */
  readonly id?: string | undefined
}

/**
 * The write commands of Redis, by their own names: inside of a transaction they are queued, and commit with it; elsewhere they are
 * sent at once. They return nothing, because inside of a transaction there is no result yet: read through the client.
 *
 * Invalid arguments are refused before the command is queued or sent, by a throw in the caller's stack.
 */
export interface RedisWrites {
  // Strings
  set(key: Key, value: Value, options?: SetOptions): Promise<void>
  setnx(key: Key, value: Value): Promise<void>
  setex(key: Key, seconds: Whole, value: Value): Promise<void>
  psetex(key: Key, milliseconds: Whole, value: Value): Promise<void>
  mset(values: Readonly<Record<string, Value>>): Promise<void>
  append(key: Key, value: Value): Promise<void>
  setrange(key: Key, offset: Whole, value: Value): Promise<void>
  setbit(key: Key, offset: Whole, bit: 0 | 1): Promise<void>

  // Counters
  incr(key: Key): Promise<void>
  incrby(key: Key, amount: Whole): Promise<void>
  incrbyfloat(key: Key, amount: number): Promise<void>
  decr(key: Key): Promise<void>
  decrby(key: Key, amount: Whole): Promise<void>

  // Hashes
  hset(key: Key, fields: Readonly<Record<string, Value>>): Promise<void>
  hset(key: Key, field: Value, value: Value): Promise<void>
  hsetnx(key: Key, field: Value, value: Value): Promise<void>
  hdel(key: Key, ...fields: readonly Value[]): Promise<void>
  hincrby(key: Key, field: Value, amount: Whole): Promise<void>
  hincrbyfloat(key: Key, field: Value, amount: number): Promise<void>

  // Lists
  lpush(key: Key, ...values: readonly Value[]): Promise<void>
  rpush(key: Key, ...values: readonly Value[]): Promise<void>
  lpushx(key: Key, ...values: readonly Value[]): Promise<void>
  rpushx(key: Key, ...values: readonly Value[]): Promise<void>
  lpop(key: Key): Promise<void>
  rpop(key: Key): Promise<void>
  rpoplpush(from: Key, to: Key): Promise<void>
  lrem(key: Key, count: Whole, value: Value): Promise<void>
  lset(key: Key, index: Whole, value: Value): Promise<void>
  ltrim(key: Key, start: Whole, stop: Whole): Promise<void>
  linsert(key: Key, side: 'BEFORE' | 'AFTER', pivot: Value, value: Value): Promise<void>

  // Sets
  sadd(key: Key, ...members: readonly Value[]): Promise<void>
  srem(key: Key, ...members: readonly Value[]): Promise<void>
  smove(from: Key, to: Key, member: Value): Promise<void>
  spop(key: Key): Promise<void>
  sinterstore(to: Key, ...keys: readonly Key[]): Promise<void>
  sunionstore(to: Key, ...keys: readonly Key[]): Promise<void>
  sdiffstore(to: Key, ...keys: readonly Key[]): Promise<void>

  // Sorted sets
  zadd(key: Key, members: Readonly<Record<string, number>>): Promise<void>
  zadd(key: Key, score: number, member: Value): Promise<void>
  zincrby(key: Key, amount: number, member: Value): Promise<void>
  zrem(key: Key, ...members: readonly Value[]): Promise<void>
  zremrangebyrank(key: Key, start: Whole, stop: Whole): Promise<void>
  zremrangebyscore(key: Key, min: Value, max: Value): Promise<void>
  zremrangebylex(key: Key, min: Value, max: Value): Promise<void>
  zpopmin(key: Key): Promise<void>
  zpopmax(key: Key): Promise<void>
  zunionstore(to: Key, ...keys: readonly Key[]): Promise<void>
  zinterstore(to: Key, ...keys: readonly Key[]): Promise<void>

  // Streams
  xadd(key: Key, fields: Readonly<Record<string, Value>>, options?: StreamAddOptions): Promise<void>
  xdel(key: Key, ...ids: readonly string[]): Promise<void>
  xtrim(key: Key, length: Whole): Promise<void>

  // Others
  pfadd(key: Key, ...elements: readonly Value[]): Promise<void>
  pfmerge(to: Key, ...keys: readonly Key[]): Promise<void>
  geoadd(key: Key, longitude: number, latitude: number, member: Value): Promise<void>
  bitop(operation: 'AND' | 'OR' | 'XOR' | 'NOT', to: Key, ...keys: readonly Key[]): Promise<void>

  // Keys
  del(...keys: readonly Key[]): Promise<void>
  unlink(...keys: readonly Key[]): Promise<void>
  expire(key: Key, seconds: Whole): Promise<void>
  pexpire(key: Key, milliseconds: Whole): Promise<void>
  expireat(key: Key, seconds: Whole): Promise<void>
  pexpireat(key: Key, milliseconds: Whole): Promise<void>
  persist(key: Key): Promise<void>
  rename(key: Key, to: Key): Promise<void>
  renamenx(key: Key, to: Key): Promise<void>

  /**
   * A command without a method here: its keys, then its other arguments, both in their order. The server is asked once per command
   * whether it writes, is allowed in scripts, and accepts this number of arguments.
   */
  raw(name: string, keys: readonly Key[], ...args: readonly Value[]): Promise<void>
}
