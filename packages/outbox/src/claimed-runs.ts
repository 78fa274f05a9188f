import { groupBy } from './group-by.ts'
import type { ClaimedRecord } from './outbox-store.ts'

/** Records of one destination and ordering key, in their order. */
export type ClaimedRun = [first: ClaimedRecord, ...rest: ClaimedRecord[]]

/** Without a key a record is a run of its own. */
export function runsOf(records: readonly ClaimedRecord[]): ClaimedRun[] {
  return groupBy(records, placeOf).map(([, run]) => run as ClaimedRun) // a group has at least one
}

function placeOf({ destination, message, id }: ClaimedRecord): string {
  const { partitionkey } = message.attributes
  return partitionkey === undefined ? id : `${destination.length} ${destination}${partitionkey}`
}
