import { isAckordError } from '@ackord/core'
import type { OutboxAdmin, OutboxRecord, RelayReport } from './outbox-admin.ts'

/** Partitions as a short text, for reports and people: consecutive numbers as a range, such as `0-15, 32`. */
export function partitionRanges(partitions: readonly number[]): string {
  const ranges: { readonly from: number; to: number }[] = []
  for (const partition of partitions.toSorted((one, other) => one - other)) {
    const last = ranges.at(-1)
    if (last !== undefined && partition === last.to + 1) last.to = partition
    else ranges.push({ from: partition, to: partition })
  }
  return ranges.map(({ from, to }) => (from === to ? String(from) : `${from}-${to}`)).join(', ')
}

export interface RecordPartition {
  readonly number: number
  /** The relay that has reported last that it owns the partition; `undefined`: none has. */
  readonly owner: RelayReport | undefined
}

/**
 * The partition of a record, and its owner. `undefined` if no relay that is alive publishes with order per key, or the record is published.
 *
 * @example
 * ```ts
 * const partition = await findPartition(outbox, record)
 * console.log(partition?.owner?.host ?? 'No relay has reported that it owns the partition.')
 * ```
 */
export async function findPartition(
  admin: Pick<OutboxAdmin, 'relays'>,
  { partition, state }: Pick<OutboxRecord, 'partition' | 'state'>,
): Promise<RecordPartition | undefined> {
  if (partition === undefined || state === 'published' || admin.relays === undefined) return undefined
  try {
    const relays = await admin.relays()
    if (relays.every(({ partitions }) => partitions === undefined)) return undefined
    return { number: partition, owner: relays.find(({ ownedPartitions = '' }) => isInRanges(partition, ownedPartitions)) }
  } catch (error) {
    // Tables of an older version have no reports.
    if (isAckordError(error, 'ACKORD_SCHEMA')) return undefined
    throw error
  }
}

function isInRanges(partition: number, ranges: string): boolean {
  if (ranges === '') return false
  return ranges.split(', ').some((range) => {
    const [from = Number.NaN, to = from] = range.split('-').map(Number)
    return from <= partition && partition <= to
  })
}
