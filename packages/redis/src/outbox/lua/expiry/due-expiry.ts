import { hash } from 'node:crypto'
import { InvalidOptionError } from '@ackord/core'
import { describeValue } from '@ackord/core/internal'
import type { Reply } from '../../../client/port.ts'
import { toBytes } from '../../record-fields.ts'
import type { LuaShard } from '../layout.ts'

/** A due expiry, as it was recorded. */
export interface DueExpiry {
  readonly subject: string
  /** Milliseconds since the epoch. NaN if the stored value is not a time. */
  readonly dueAt: number
  /** `undefined` if it is missing: then the expiry is parked. */
  readonly context: Uint8Array | undefined
  /** The tag under which it is recorded. Default: that of the subject. */
  readonly tag?: string | undefined
}

export interface DueExpiries {
  /** Oldest first. */
  readonly expiries: readonly DueExpiry[]
  /** By the server's clock. */
  readonly now: number
  /** Milliseconds until the next expiry is due, by the server's clock; `undefined` without one. */
  readonly nextIn: number | undefined
}

/** A time that a sorted set stores exactly, and a Date accepts. */
export function isTime(value: number): boolean {
  return Number.isSafeInteger(value) && value >= 0 && value <= 8.64e15
}

export function checkTime(option: string, value: number): void {
  if (isTime(value)) return
  const found = typeof value === 'number' ? String(value) : describeValue(value)
  throw new InvalidOptionError(option, `must be a whole number of milliseconds since the epoch; it is ${found}.`)
}

/** Reads the rows of the script's reply. */
export function toExpiries({ tag }: LuaShard, rows: readonly Reply[]): DueExpiry[] {
  const expiries: DueExpiry[] = []
  for (let at = 0; at < rows.length; at += 3) {
    const [subject, score, context] = rows.slice(at, at + 3)
    const text = String(score)
    expiries.push({
      subject: String(subject),
      dueAt: /^\d+$/.test(text) ? Number(text) : Number.NaN,
      context: Buffer.isBuffer(context) ? toBytes(context) : undefined,
      tag,
    })
  }
  return expiries
}

/** Oldest first. Invalid times come before, as in the sorted set. */
export function byAge(one: DueExpiry, other: DueExpiry): number {
  return (isTime(one.dueAt) ? one.dueAt : -1) - (isTime(other.dueAt) ? other.dueAt : -1)
}

/**
 * The keys of an expiry, under the tag of a shard. In scripts they follow those of the shard, in this order.
 *
 *     due       zset  subject, by when it expires, in milliseconds
 *     contexts  hash  subject → the context of its event
 *     revoked   zset  subject, by when the mark ends
 *     decided   zset  'd' dueAt ' ' subject: this expiry was decided. 's' subject: it has expired. Both by when they may be forgotten
 *     parked    hash  subject → dueAt parkedAt reason
 *
 * A marked subject never gets an expiry event, whichever process decides, and whatever was recorded again. A decided expiry is not decided
 * again, also when its event was published and deleted long ago.
 */
export const expiryKeyNames = ['due', 'contexts', 'revoked', 'decided', 'parked'] as const

export const expiryKeyTypes: readonly string[] = ['zset', 'hash', 'zset', 'zset', 'hash']

export type ExpiryKeyName = (typeof expiryKeyNames)[number]

export function expiryKey(shard: LuaShard, name: string, key: ExpiryKeyName): string {
  return shard.key(name, key)
}

/** The keys of the shard, then those of the expiry. */
export function keysWithExpiry(shard: LuaShard, name: string): readonly string[] {
  return [...shard.keys, ...expiryKeyNames.map((key) => expiryKey(shard, name, key))]
}

const form = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i

/** The bytes of a UUID. */
export function namespaceBytes(namespace: string): Buffer {
  if (typeof namespace === 'string' && form.test(namespace)) return Buffer.from(namespace.replaceAll('-', ''), 'hex')
  throw new InvalidOptionError('namespace', `must be a UUID, such as '7c0f3a6e-2b5d-4e1f-9a8b-6c4d2e0f1a3b'; it is '${namespace}'.`)
}

/** UUIDv3 of `subject|dueAt`: the event of an expiry has the same id, whichever process decides it, and however often. */
export function expiryId(namespace: Buffer, subject: string, dueAt: number): string {
  const bytes = Buffer.from(hash('md5', Buffer.concat([namespace, Buffer.from(`${subject}|${dueAt}`)]), 'hex'), 'hex')
  bytes.writeUInt8((bytes.readUInt8(6) & 0x0f) | 0x30, 6)
  bytes.writeUInt8((bytes.readUInt8(8) & 0x3f) | 0x80, 8)
  const hex = bytes.toString('hex')
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`
}
