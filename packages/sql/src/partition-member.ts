import type { Runtime } from '@ackord/core'
import { Lane } from './lane.ts'
import type { InHand, MemberStatus, OwnershipStatements } from './ownership-statements.ts'
import { partitionCount } from './partition.ts'

/** Of its lease, how long a member need not say again that it lives. Longer than a third, after which idle relays claim: they say it with every other claim. */
const keptFor = 0.4

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
    // A clock that was set back says nothing.
    const elapsed = Math.abs(this.#runtime.now() - this.#keptAt)
    return !this.#joined || this.#wanted || elapsed >= lease * keptFor || this.#drained(inHand).length > 0
  }

  /** `false`: it was silent past its lease, and has nothing any more. */
  keep(lease: number, inHand: () => ReadonlySet<number>): Promise<boolean> {
    return this.#keeping.run(() => this.#keep(lease, inHand))
  }

  /** What the database tells with every claim. */
  observe({ remaining, live, gone, free }: MemberStatus, lease: number, inHand: ReadonlySet<number>): void {
    this.#live = live
    this.#drain(inHand)
    this.#wanted = gone > 0 || (free > 0 && this.#owned.size < this.#share) || remaining <= lease * (1 - keptFor)
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
    const startedAt = this.#runtime.now()
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
