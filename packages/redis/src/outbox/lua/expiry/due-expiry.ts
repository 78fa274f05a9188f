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
