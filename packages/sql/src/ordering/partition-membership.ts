import type { Runtime } from '@ackord/core'
import { Lane } from '../contract/statement-queue.ts'
import type { InHand, KeepOptions, MemberStatus, Ownership, OwnershipStatements } from '../contract/store-dialect.ts'
import { partitionCount } from '../records/partition.ts'
import type { Row } from '../records/row.ts'
import type { NotedRow } from './owned-claim.ts'

/**
 * Of its lease, how long a member need not say again that it lives. While nothing is in hand longer than a third, after which idle relays claim: they say it with
 * every other claim. While something is, short: what is left of the lease is how long the process may stand still without losing it.
 */
const keptIdle = 0.4
const keptBusy = 0.1

/**
 * A store object as one of those that share the partitions. Its way:
 *
 *     new ─ keep ─▶ joined ─ claims and renewals keep it ─▶ joined
 *                      │  ─ silent past its lease ─────────▶ lost: what it had is anybody's; it begins anew, under another name
 *                      └─ leave ───────────────────────────▶ new
 *
 * A partition that it owns is given from; or it is one too many, and drains: nothing more is given of it, and when nothing is in hand it is handed over.
 */
export class PartitionMember {
  readonly #statements: Pick<OwnershipStatements, 'keep' | 'leave'>
  readonly #runtime: Runtime
  readonly #keeping = new Lane()
  #name: string
  #joined = false
  #owned = new Map<number, string>()
  #draining: ReadonlySet<number> = new Set()
  #live = 1
  /** Whether there is something to be had or to be buried. */
  #wanted = false
  #keptAt = -Infinity
  /** Counts how often partitions came to it. */
  gains = 0

  constructor(statements: Pick<OwnershipStatements, 'keep' | 'leave'>, runtime: Runtime) {
    this.#statements = statements
    this.#runtime = runtime
    this.#name = runtime.uuid()
  }

  get name(): string {
    return this.#name
  }

  get joined(): boolean {
    return this.#joined
  }

  get live(): number {
    return this.#live
  }

  /** What it may give of. */
  get partitions(): readonly number[] {
    return [...this.#owned.keys()].filter((partition) => !this.#draining.has(partition))
  }

  /** The epochs of what it may give of, as they are now. */
  get epochs(): ReadonlyMap<number, string> {
    return this.#owned
  }

  givesOf(partition: number, epoch: string): boolean {
    return this.#owned.get(partition) === epoch && !this.#draining.has(partition)
  }

  /** Whether it is time to say that it lives, or there is another reason to. `inHand` are the partitions of which something is. */
  isDue(lease: number, inHand: ReadonlySet<number>): boolean {
    const elapsed = this.#runtime.monotonic() - this.#keptAt
    return !this.#joined || this.#wanted || elapsed >= lease * keptFor(inHand) || this.#drained(inHand).length > 0
  }

  /** `false`: it was silent past its lease, and has nothing any more. */
  keep(lease: number, inHand: () => ReadonlySet<number>): Promise<boolean> {
    return this.#keeping.run(() => this.#keep(lease, inHand))
  }

  /** What the database tells with every claim. */
  observe({ remaining, live, gone, free }: MemberStatus, lease: number, inHand: ReadonlySet<number>): void {
    this.#live = live
    this.#drain(inHand)
    this.#wanted = gone > 0 || (free > 0 && this.#owned.size < this.#share) || remaining <= lease * (1 - keptFor(inHand))
  }

  /** What it had belongs to others. */
  lose(): void {
    this.#name = this.#runtime.uuid()
    this.#joined = false
    this.#owned = new Map()
    this.#draining = new Set()
  }

  async leave(inHand: readonly InHand[]): Promise<void> {
    if (!this.#joined) return
    const name = this.#name
    this.lose()
    await this.#statements.leave(name, inHand)
  }

  async #keep(lease: number, inHand: () => ReadonlySet<number>): Promise<boolean> {
    const member = this.#name
    const startedAt = this.#runtime.monotonic()
    const handOver = this.#drained(inHand())
    // From here on: a claim that is on its way must not give of them when it comes back.
    for (const partition of handOver) this.#owned.delete(partition)
    const ownership = await this.#statements.keep({ member, lease, joins: !this.#joined, handOver })
    if (member !== this.#name) return false
    if (ownership === undefined) {
      this.lose()
      return false
    }
    const { owned, live } = ownership
    if ([...owned].some(([partition, epoch]) => this.#owned.get(partition) !== epoch)) this.gains += 1
    this.#owned = new Map(owned)
    this.#live = live
    this.#joined = true
    this.#wanted = false
    this.#keptAt = startedAt
    this.#drain(inHand())
    return true
  }

  get #share(): number {
    return Math.ceil(partitionCount / this.#live)
  }

  #drained(inHand: ReadonlySet<number>): readonly number[] {
    return [...this.#draining].filter((partition) => !inHand.has(partition))
  }

  /** Chooses what is too much: first that of which nothing is in hand. The same ones again, or nothing would ever be drained. */
  #drain(inHand: ReadonlySet<number>): void {
    const surplus = Math.max(0, this.#owned.size - this.#share)
    const before = this.#draining
    if (surplus === 0 && before.size === 0) return
    const candidates = [...this.#owned.keys()].sort((one, other) => other - one)
    const [busy, idle] = [candidates.filter((one) => inHand.has(one)), candidates.filter((one) => !inHand.has(one))]
    this.#draining = new Set([...idle, ...busy].slice(0, surplus))
    // What was not given of it meanwhile must be found again.
    if ([...before].some((partition) => this.#owned.has(partition) && !this.#draining.has(partition))) this.gains += 1
  }
}

function keptFor(inHand: ReadonlySet<number>): number {
  return inHand.size > 0 ? keptBusy : keptIdle
}

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
