import { redisKey } from '../../client/keys.ts'

/**
 * What a Lua outbox keeps, and where. Every shard has all of it under one hash tag, so that each transition is one script.
 *
 *     entries       hash    id → body (`record-body.ts`); never decoded in Lua, changed only by an operator's edit
 *     state         hash    id → status attempts seq created at lane print until token, with blanks between them
 *     errors        hash    id → the last error
 *     ready         zset    lane class seq id, all with score 0, hence in the order of these: what may be claimed now
 *     waiting       zset    the same members, by when they may be claimed: delayed, or backing off
 *     inflight      zset    id, by when the lease ends
 *     sent          zset    id, by when it was published: only where published records are retained
 *     index         zset    status seq id, all with score 0: every record once, for listing
 *     destinations  hash    lane → name, of those that have records
 *     counts        hash    lane status → how many: `o` open, `i` of these in flight, `f` parked, `s` published
 *     seq           string  the last number given
 *     meta          hash    layout → the number of this layout
 *     wake          stream  one entry; a new one is a hint that there is something to claim
 *     keys          zset    place lane key seq id, all with score 0: what has an ordering key, only with order per key
 *     pollers       zset    the store objects that claim, by when the lease of each ends: only with order per key
 *
 * - **id**: 22 characters, a digest of destination, source and message id (`record-body.ts`). What is appended twice is one record.
 * - **status**: `O` open, `S` published, `F` parked; in `index` and `counts` in small letters.
 * - **seq**: 16 digits, from INCR. It is the order in which records were stored, however many in a millisecond.
 * - **at**: when it may be claimed, was published or was parked. Of a leased record: what it was before the claim.
 * - **lane**: 8 characters, a digest of the destination. **class**: `f` never tried, `r` tried before.
 *   With order per key: `k` for all that have a key.
 * - **print**: a digest of what the record says, to tell a duplicate from a conflict. With order per key: then a dot and **key**, 12 characters, a digest of
 *   the ordering key, if there is one.
 * - **place**: `o` open, `i` in hand, `f` parked.
 * - **until**, **token**: of the lease; 0 and nothing without one. A claim holds while the token is its own and `until` has not come. With order per key the
 *   token begins with the name of the store object and a slash, and the claim holds while the token is its own and the object is among the living `pollers`;
 *   `until` is for what its own object does not know of, because an answer was lost.
 *
 * What holds between any two scripts:
 *
 * - an id has a body, a state and one member of `index`, whose letter is its status; or none of the three
 * - open: in exactly one of `ready`, `waiting` and `inflight`; with a token in `inflight`, by `until`. Parked and published: in none
 * - published: in `sent`, by `at`
 * - open or parked, with a key: in `keys`, once, by its place. All others: not
 * - `counts` are the numbers of what is in `index` and `inflight`
 *
 * Scripts keep to these rules (`scripts/prelude.ts` has what they share):
 *
 * - KEYS are those of a shard, in this order, from some place on; all of them are declared, whether needed or not
 * - the type of every key is checked before the first write; a wrong one is an error reply, and nothing is written
 * - the time is the server's; durations come from outside
 * - the body first, then the places where a record is from now on, then its state, and then it is taken out of where it was. What refuses a write in the
 *   middle, such as a missing permission, leaves a member that claims do not believe, and a record that is found again, at worst when its lease has
 *   run out; only `counts` may then be wrong, until a repair
 * - scripts that free memory or change what is there begin with a removal that removes nothing: a server whose memory is full takes
 *   the rest of a script if it took its first write
 */
export const layoutVersion = 1

/** The layout of an outbox with order per key. One without is as it was before there was any order, so that relays of earlier versions work on it, and on no other. */
export const orderedLayoutVersion = 2

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
] as const

export type KeyName = (typeof kinds)[number][0]

export const keyNames: readonly KeyName[] = kinds.map(([name]) => name)
export const keyTypes: readonly string[] = kinds.map(([, type]) => type)
export const keyCount: number = kinds.length

/** How far behind a shard's first key this one is. */
export function offsetOf(name: KeyName): number {
  return keyNames.indexOf(name)
}

/** A part of an outbox that is in one slot. */
export class LuaShard {
  readonly number: number
  readonly tag: string
  /** In the order of the layout. */
  readonly keys: readonly string[]
  readonly #name: string
  /** Where the next claim begins, so that each lane has its turn. */
  cursor = ''
  /** With order per key: of each lane, the key behind which the next claim begins. */
  readonly keyCursors: Map<string, string> = new Map()

  constructor(number: number, tag: string, name: string) {
    this.number = number
    this.tag = tag
    this.#name = name
    this.keys = keyNames.map((one) => this.key(one))
  }

  /** A key beside the others: for what else belongs to the outbox. */
  key(...parts: readonly string[]): string {
    return redisKey(this.tag, this.#name, ...parts)
  }

  /** The record's id as callers know it. */
  idOf(entry: string): string {
    return `${entry}.${this.number}`
  }
}
