import type { Row } from './driver.ts'
import type { NotedRow } from './owned-claim.ts'
import type { KeepOptions, Ownership } from './ownership-statements.ts'
import { partitionCount } from './partition.ts'

interface MemberRow {
  readonly member: string
  /** Whether it has time left. */
  readonly alive: boolean
}

interface PartitionRow {
  readonly partition: number
  readonly epoch: string
  readonly owner: string | undefined
  /** Whether nobody owns it, or nobody that is noted. */
  readonly free: boolean
  /** Whether there are notes of what its owner has in hand. */
  readonly noted: boolean
}

/** Of the columns `partition`, `epoch`, `owner`, `free` and `noted`. */
export function readPartition(row: Row): PartitionRow {
  return {
    partition: Number(row['partition']),
    epoch: String(row['epoch']),
    owner: row['owner'] === null ? undefined : String(row['owner']),
    free: Number(row['free']) === 1,
    noted: Number(row['noted']) === 1,
  }
}

/** What a member that is gone had in hand. */
interface LostNote {
  readonly member: string
  readonly note: string
  readonly rows: readonly NotedRow[]
}

/**
 * Of small statements, each safe by itself: whoever stalls between two of them keeps nobody waiting, and whatever another one did meanwhile is left as it is.
 * Every change of owner raises the epoch.
 */
export interface KeepStatements {
  /** Extends the member's time, or notes it if it joins. `false`: its time was over. */
  extend(options: Pick<KeepOptions, 'member' | 'lease' | 'joins'>): Promise<boolean>
  members(): Promise<readonly MemberRow[]>
  partitions(): Promise<readonly PartitionRow[]>
  /** Forgets those whose time is over. */
  bury(): Promise<void>
  /** The notes of members that are not noted themselves. */
  lostNotes(): Promise<readonly LostNote[]>
  /** One attempt more for the rows that are as they were noted, then forgets the note. Doing it twice must count once. */
  countLost(note: LostNote): Promise<void>
  /** Of these, what the member owns is nobody's. */
  giveAway(member: string, partitions: readonly number[]): Promise<void>
  /** Of these, those whose epoch is the same still. */
  take(member: string, partitions: readonly PartitionRow[]): Promise<void>
}

/** `OwnershipStatements.keep()` for databases in which it is made of small statements. */
export async function keepPartitions(statements: KeepStatements, options: KeepOptions): Promise<Ownership | undefined> {
  const { member, joins, handOver } = options
  if (!(await statements.extend(options))) return undefined
  const ownership = (members: readonly MemberRow[], partitions: readonly PartitionRow[]): Ownership => ({
    owned: new Map(partitions.filter(({ owner }) => owner === member).map(({ partition, epoch }) => [partition, epoch])),
    live: members.filter(({ alive }) => alive).length,
  })

  const members = await statements.members()
  const partitions = await statements.partitions()
  const gone = members.some(({ alive }) => !alive)
  if (!joins && !gone && handOver.length === 0 && !partitions.some(({ free }) => free)) return ownership(members, partitions)

  if (gone) await statements.bury()
  for (const note of await statements.lostNotes()) await statements.countLost(note)
  if (handOver.length > 0) await statements.giveAway(member, handOver)
  const living = await statements.members()
  const now = await statements.partitions()
  const { owned, live } = ownership(living, now)
  const lacking = Math.ceil(partitionCount / Math.max(1, live)) - owned.size
  // What a lost owner had in hand is counted before anybody gets it; another one may be at it just now.
  const takable = now.filter(({ partition, free, noted }) => free && !noted && !handOver.includes(partition))
  const wanted = takable.slice(0, Math.max(0, lacking))
  if (wanted.length === 0) return { owned, live }
  await statements.take(member, wanted)
  return ownership(living, await statements.partitions())
}
