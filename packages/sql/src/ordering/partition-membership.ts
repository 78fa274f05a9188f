import type { Runtime } from '@ackord/core'
import type { InFlightRow, KeepOptions, MemberStatus, Ownership, OwnershipStatements } from '../contract/ownership-statements.ts'
import { StatementQueue } from '../contract/statement-queue.ts'
import { partitionCount } from '../records/outbox-row.ts'
import type { Row } from '../records/row.ts'
import type { JournalRow } from './owned-claim.ts'

/**
 * The fraction of its lease after which a member renews it. With nothing in flight it is longer than a third, the interval at which idle relays
 * claim: they renew with every other claim. With records in flight it is short: the rest of the lease is how long the process may stall without
 * losing them.
 */
const keptIdle = 0.4
const keptBusy = 0.1

/**
 * A store object as one of the members that share the partitions. Its states:
 *
 *     new ─ keep ─▶ joined ─ claims and renewals extend it ─▶ joined
 *                      │  ─ silent past its lease ─────────▶ lost: its partitions are free; it joins again under a new name
 *                      └─ leave ───────────────────────────▶ new
 *
 * A member claims from the partitions it owns. A partition above its share drains: nothing more is claimed from it, and when none of its records are
 * in flight it is handed over.
 */
export class PartitionMember {
  readonly #statements: Pick<OwnershipStatements, 'keep' | 'leave'>
  readonly #runtime: Runtime
  readonly #keeping = new StatementQueue()
  #name: string
  #joined = false
  #owned = new Map<number, string>()
  #draining: ReadonlySet<number> = new Set()
  #live = 1
  /** Whether there are partitions to acquire or expired members to remove. */
  #wanted = false
  #keptAt = -Infinity
  /** Incremented whenever the member acquires partitions. */
  generation = 0

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

  /** The partitions it may claim from. */
  get partitions(): readonly number[] {
    return [...this.#owned.keys()].filter((partition) => !this.#draining.has(partition))
  }

  /** The current epochs of the owned partitions. */
  get epochs(): ReadonlyMap<number, string> {
    return this.#owned
  }

  mayClaimFrom(partition: number, epoch: string): boolean {
    return this.#owned.get(partition) === epoch && !this.#draining.has(partition)
  }

  /** Whether the lease must be renewed, or `keep` must be called for another reason. `inFlight` are the partitions with records in flight. */
  isDue(lease: number, inFlight: ReadonlySet<number>): boolean {
    const elapsed = this.#runtime.monotonic() - this.#keptAt
    return !this.#joined || this.#wanted || elapsed >= lease * keptFor(inFlight) || this.#drained(inFlight).length > 0
  }

  /** `false`: the lease had expired, and the member owns nothing any more. With `handsOver: false`, partitions that can be handed over are kept until the next call. */
  keep(lease: number, inFlight: () => ReadonlySet<number>, { handsOver }: { readonly handsOver: boolean }): Promise<boolean> {
    return this.#keeping.run(() => this.#keep(lease, inFlight, handsOver))
  }

  /** Takes the status that the database returns with every claim. */
  observe({ remaining, live, gone, free }: MemberStatus, lease: number, inFlight: ReadonlySet<number>): void {
    this.#live = live
    this.#drain(inFlight)
    this.#wanted = gone > 0 || (free > 0 && this.#owned.size < this.#share) || remaining <= lease * (1 - keptFor(inFlight))
  }

  /** Its partitions belong to other members now. */
  forfeit(): void {
    this.#name = this.#runtime.uuid()
    this.#joined = false
    this.#owned = new Map()
    this.#draining = new Set()
  }

  async leave(inFlight: readonly InFlightRow[]): Promise<void> {
    if (!this.#joined) return
    const name = this.#name
    this.forfeit()
    await this.#statements.leave(name, inFlight)
  }

  async #keep(lease: number, inFlight: () => ReadonlySet<number>, handsOver: boolean): Promise<boolean> {
    const member = this.#name
    const startedAt = this.#runtime.monotonic()
    const handOver = handsOver ? this.#drained(inFlight()) : []
    // Effective immediately: a claim that is under way must not return records of these partitions.
    for (const partition of handOver) this.#owned.delete(partition)
    const ownership = await this.#statements.keep({ member, lease, joins: !this.#joined, handOver })
    if (member !== this.#name) return false
    if (ownership === undefined) {
      this.forfeit()
      return false
    }
    const { owned, live } = ownership
    if ([...owned].some(([partition, epoch]) => this.#owned.get(partition) !== epoch)) this.generation += 1
    this.#owned = new Map(owned)
    this.#live = live
    this.#joined = true
    this.#wanted = false
    this.#keptAt = startedAt
    this.#drain(inFlight())
    return true
  }

  get #share(): number {
    return Math.ceil(partitionCount / this.#live)
  }

  #drained(inFlight: ReadonlySet<number>): readonly number[] {
    return [...this.#draining].filter((partition) => !inFlight.has(partition))
  }

  /**
   * Chooses the partitions above the share: first those without records in flight. Keeps earlier choices, otherwise nothing would ever be drained.
   */
  #drain(inFlight: ReadonlySet<number>): void {
    const surplus = Math.max(0, this.#owned.size - this.#share)
    const before = this.#draining
    if (surplus === 0 && before.size === 0) return
    const candidates = [...this.#owned.keys()].sort((one, other) => other - one)
    const [busy, idle] = [candidates.filter((one) => inFlight.has(one)), candidates.filter((one) => !inFlight.has(one))]
    this.#draining = new Set([...idle, ...busy].slice(0, surplus))
    // Records that were skipped meanwhile must be found again.
    if ([...before].some((partition) => this.#owned.has(partition) && !this.#draining.has(partition))) this.generation += 1
  }
}

function keptFor(inFlight: ReadonlySet<number>): number {
  return inFlight.size > 0 ? keptBusy : keptIdle
}

interface MemberRow {
  readonly member: string
  /** Whether its lease has not expired. */
  readonly alive: boolean
}

interface PartitionRow {
  readonly partition: number
  readonly epoch: string
  readonly owner: string | undefined
  /** Whether it has no owner, or its owner is not registered. */
  readonly free: boolean
  /** Whether its owner has journal entries. */
  readonly hasEntries: boolean
}

/** Reads the columns `partition`, `epoch`, `owner`, `free` and `has_entries`. */
export function readPartition(row: Row): PartitionRow {
  return {
    partition: Number(row['partition']),
    epoch: String(row['epoch']),
    owner: row['owner'] === null ? undefined : String(row['owner']),
    free: Number(row['free']) === 1,
    hasEntries: Number(row['has_entries']) === 1,
  }
}

/** A journal entry of a member that is gone. */
interface LostEntry {
  readonly member: string
  readonly entry: string
  readonly rows: readonly JournalRow[]
}

/**
 * Small statements, each safe by itself: a member that stalls between two of them blocks no other, and changes that others made meanwhile are
 * respected. Every change of owner increments the epoch.
 */
export interface KeepStatements {
  /** Extends the member's lease, or registers the member if it joins. `false`: its lease had expired. */
  extend(options: Pick<KeepOptions, 'member' | 'lease' | 'joins'>): Promise<boolean>
  members(): Promise<readonly MemberRow[]>
  partitions(): Promise<readonly PartitionRow[]>
  /** Removes members whose lease has expired. */
  removeExpired(): Promise<void>
  /** The journal entries of members that are not registered any more. */
  lostEntries(): Promise<readonly LostEntry[]>
  /** Counts one more attempt for the rows that are unchanged since the claim, then deletes the entry. Idempotent. */
  countLostAttempts(entry: LostEntry): Promise<void>
  /** Frees those of these partitions that the member owns. */
  release(member: string, partitions: readonly number[]): Promise<void>
  /** Acquires those of these partitions whose epoch is unchanged. */
  acquire(member: string, partitions: readonly PartitionRow[]): Promise<void>
}

/** `OwnershipStatements.keep()` for databases that use small statements. */
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

  if (gone) await statements.removeExpired()
  for (const entry of await statements.lostEntries()) await statements.countLostAttempts(entry)
  if (handOver.length > 0) await statements.release(member, handOver)
  const living = await statements.members()
  const now = await statements.partitions()
  const { owned, live } = ownership(living, now)
  const lacking = Math.ceil(partitionCount / Math.max(1, live)) - owned.size
  // The records that a lost owner had in flight are counted before another member claims them; a concurrent member may be doing so right now.
  const available = now.filter(({ partition, free, hasEntries }) => free && !hasEntries && !handOver.includes(partition))
  const wanted = available.slice(0, Math.max(0, lacking))
  if (wanted.length === 0) return { owned, live }
  await statements.acquire(member, wanted)
  return ownership(living, await statements.partitions())
}
