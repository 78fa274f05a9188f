import type { ClaimedRecord, NewOutboxRecord } from '@ackord/outbox'
import { type RecordOptions, record } from '../outbox/outbox-records.ts'

/** A record with an ordering key. Its id is the key and the number, so that what arrives can be read. */
export function keyed(key: string, number: number, options: RecordOptions = {}): NewOutboxRecord {
  return record(keyedId(key, number), { ...options, attributes: { partitionkey: key, ...options.attributes } })
}

/** Numbers `from` to `from + count - 1` of one key. */
export function keyedRun(
  key: string,
  count: number,
  options: RecordOptions & { readonly from?: number | undefined } = {},
): NewOutboxRecord[] {
  const { from = 1, ...rest } = options
  return Array.from({ length: count }, (_, index) => keyed(key, from + index, rest))
}

export function keyedIds(key: string, ...numbers: readonly number[]): string[] {
  return numbers.map((number) => keyedId(key, number))
}

export function upTo(count: number): number[] {
  return Array.from({ length: count }, (_, index) => index + 1)
}

export function keyNames(count: number, prefix = 'k'): string[] {
  return upTo(count).map((number) => `${prefix}${number}`)
}

export function keyOf({ message }: ClaimedRecord): string {
  return String(message.attributes['partitionkey'] ?? '')
}

export function ofKey(claimed: readonly ClaimedRecord[], key: string): ClaimedRecord[] {
  return claimed.filter((one) => keyOf(one) === key)
}

function keyedId(key: string, number: number): string {
  return `${key}/${String(number).padStart(4, '0')}`
}
