import { createHash } from 'node:crypto'
import { InvalidOptionError, type RawMessage } from '@ackord/core'
import { keySlot, redisKey } from '../../client/keys.ts'
import type { RedisArgument } from '../../client/port.ts'

/**
 * The keys of a Lua outbox. Each shard has all of them under one hash tag, so that each transition is one script.
 *
 *     entries       hash    id → body (`record-body.ts`); never decoded in Lua, changed only by an operator's edit
 *     state         hash    id → status attempts seq created at destinationHash print until token, with blanks between them
 *     errors        hash    id → its failures (`failure-field.ts`)
 *     ready         zset    destinationHash class seq id, all with score 0, so that they sort by these: records that may be claimed now
 *     waiting       zset    the same members, by when they may be claimed: delayed, or backing off
 *     inflight      zset    id, by when the lease ends
 *     sent          zset    id, by when it was published: only where published records are retained
 *     index         zset    status seq id, all with score 0: every record once, for listing
 *     destinations  hash    destinationHash → name, for destinations that have records
 *     counts        hash    destinationHash status → number of records: `o` open, `i` in flight (these are open, too), `f` parked, `s` published
 *     seq           string  the last sequence number
 *     meta          hash    layout → the number of this layout; and which origins records have (`message-index.ts`)
 *     wake          stream  a few entries; a new one is a hint that there are records to claim
 *     keys          zset    place destinationHash key seq id, all with score 0: records with an ordering key, only with order per key
 *     pollers       zset    the store objects that claim, by when the lease of each ends: only with order per key
 *     edited        hash    id → message id: records whose id is no longer the digest of their content, because an operator has edited them
 *
 * The first shard also has the notes (`redis-notes.ts`), in keys of their own.
 *
 * - **id**: 22 characters, a digest of destination, source and message id (`record-body.ts`). A record that is appended twice is stored once.
 * - **status**: `O` open, `S` published, `F` parked; in `index` and `counts` in lower case.
 * - **seq**: 16 digits, from INCR. It is the order in which records were stored, however many in a millisecond.
 * - **at**: when it may be claimed, was published or was parked. For a leased record: its value before the claim.
 * - **destinationHash**: 8 characters, a digest of the destination. **class**: `f` never tried, `r` tried before.
 *   With order per key: `k` for all records with a key.
 * - **print**: a digest of the content of the record, to distinguish a duplicate from a conflict. With order per key: then a dot and **key**, 12 characters, a digest of
 *   the ordering key, if there is one.
 * - **place**: `o` open, `i` in flight, `f` parked.
 * - **until**, **token**: the lease; 0 and empty without one. A claim holds while the token is its own and `until` has not passed. With order per key the
 *   token begins with the name of the store object and a slash, and the claim holds while the token is its own and the object is a live one in `pollers`;
 *   `until` is for records that its own object does not know of, because an answer was lost.
 *
 * Invariants between any two scripts:
 *
 * - an id has a body, a state and one member of `index`, whose letter is its status; or none of the three
 * - open: in exactly one of `ready`, `waiting` and `inflight`; with a token in `inflight`, by `until`. Parked and published: in none
 * - published: in `sent`, by `at`
 * - open or parked, with a key: in `keys`, once, by its place. All others: not in `keys`
 * - `counts` are the numbers of members of `index` and `inflight`
 *
 * Rules for scripts (`scripts/prelude.ts` has their common parts):
 *
 * - KEYS are those of a shard, in this order, from some index on; all of them are declared, whether needed or not
 * - the type of every key is checked before the first write; a wrong type is an error reply, and nothing is written
 * - the time is the server's; durations are arguments
 * - a record's body is written first, then its new index members, then its state; then its old index members are removed. If a write in the
 *   middle is refused, for example for a missing permission, there is a member that claims ignore, and a record that is found again, at the latest when its lease has
 *   expired; only `counts` may then be wrong, until a repair
 * - scripts that free memory or change records begin with a removal that removes nothing: a server whose memory is full accepts
 *   the rest of a script if it accepted its first write
 */
export const layoutVersion = 1

/** The layout of an outbox with order per key. An outbox without order has the earlier layout, so that relays of earlier versions can use it, and cannot use one with order. */
export const orderedLayoutVersion = 2

/** In `meta`, before an origin: how many records with it were stored. */
export const originField = 'origin '

/** About how many origins are counted. With more, searches for a message id read all records. */
export const maxOrigins = 1000

const kinds = [
  ['entries', 'hash'],
  ['state', 'hash'],
  ['errors', 'hash'],
  ['ready', 'zset'],
  ['waiting', 'zset'],
  ['inflight', 'zset'],
  ['sent', 'zset'],
  ['index', 'zset'],
  ['destinations', 'hash'],
  ['counts', 'hash'],
  ['seq', 'string'],
  ['meta', 'hash'],
  ['wake', 'stream'],
  ['keys', 'zset'],
  ['pollers', 'zset'],
  ['edited', 'hash'],
] as const

export type KeyName = (typeof kinds)[number][0]

export const keyNames: readonly KeyName[] = kinds.map(([name]) => name)
export const keyTypes: readonly string[] = kinds.map(([, type]) => type)
export const keyCount: number = kinds.length

/** The offset of this key from a shard's first key. */
export function offsetOf(name: KeyName): number {
  return keyNames.indexOf(name)
}

/** A part of an outbox in one slot. */
export class LuaShard {
  readonly number: number
  readonly tag: string
  /** In the order of the layout. */
  readonly keys: readonly string[]
  readonly #name: string
  /** The destination behind which the next claim begins, so that each destination has its turn. */
  cursor = ''
  /** With order per key: the key of each destination behind which the next claim begins. */
  readonly keyCursors: Map<string, string> = new Map()

  constructor(number: number, tag: string, name: string) {
    this.number = number
    this.tag = tag
    this.#name = name
    this.keys = keyNames.map((one) => this.key(one))
  }

  /** Another key in the slot of the shard. */
  key(...parts: readonly string[]): string {
    return redisKey(this.tag, this.#name, ...parts)
  }

  /** The id of a record for callers. */
  idOf(entry: string): string {
    return `${entry}.${this.number}`
  }
}

export interface LuaShardsOptions {
  readonly tag: string
  readonly name: string
  readonly count: number
  readonly keyPrefix: string
}

/** A record: its shard and its id there. */
export interface ShardEntry {
  readonly shard: LuaShard
  readonly entry: string
}

export function tagOfShard(tag: string, number: number): string {
  return number === 0 ? tag : `${tag}:${number}`
}

const idForm = /^([\w-]{22})\.(\d{1,6})$/

/** The shards of an outbox: `{tag}`, `{tag:1}`, `{tag:2}` and so on. The first has the tag of an outbox with one shard, so that its records are found when shards are added. */
export class LuaShards {
  readonly all: readonly LuaShard[]
  readonly #keyPrefix: string
  readonly #bySlot: ReadonlyMap<number, LuaShard>

  constructor({ tag, name, count, keyPrefix }: LuaShardsOptions) {
    this.all = Array.from({ length: count }, (_, number) => new LuaShard(number, tagOfShard(tag, number), name))
    this.#keyPrefix = keyPrefix
    this.#bySlot = new Map(this.all.map((shard) => [this.#slotOf(shard.key('state')), shard]))
  }

  /** By the ordering key, so that all records of a key are in one shard. */
  byKey(key: string): LuaShard {
    const { length } = this.all
    const number = length === 1 ? 0 : createHash('sha256').update(key).digest().readUInt32BE() % length
    return this.all[number] as LuaShard
  }

  of({ attributes }: RawMessage): LuaShard {
    return this.all.length === 1 ? (this.all[0] as LuaShard) : this.byKey(String(attributes.partitionkey ?? attributes.id))
  }

  /** With order per key: throws if the ordering key of this message belongs to another shard than the one where it is to be stored. */
  checkKey({ attributes: { partitionkey } }: RawMessage, shard: LuaShard): void {
    if (partitionkey === undefined || this.byKey(String(partitionkey)) === shard) return
    const own = this.byKey(String(partitionkey)).tag
    const text = `has the ordering key '${partitionkey}', whose events are under {${own}}, not under {${shard.tag}}: with order per key they must be together.`
    throw new InvalidOptionError('the message', text)
  }

  byTag(tag: string): LuaShard | undefined {
    return this.all.find((shard) => shard.tag === tag)
  }

  /** The shard in the slot of this key. */
  beside(key: RedisArgument): LuaShard | undefined {
    return this.#bySlot.get(this.#slotOf(key))
  }

  /** `undefined` for an id that this outbox never made. */
  find(id: string): ShardEntry | undefined {
    const [, entry, number] = idForm.exec(id) ?? []
    const shard = this.all[Number(number)]
    return entry === undefined || shard === undefined ? undefined : { shard, entry }
  }

  #slotOf(key: RedisArgument): number {
    return keySlot(Buffer.concat([Buffer.from(this.#keyPrefix), Buffer.from(key)]))
  }
}
