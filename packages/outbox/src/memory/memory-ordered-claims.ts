import type { Runtime } from '@ackord/core'
import type { Claim, ClaimedRecord, ClaimOptions, Outcome } from '../store/outbox-store.ts'
import type { MemoryClaims } from './memory-claims.ts'
import { claimedRecord, isPending, type MemoryRow, type MemoryRows, orderingKeyOf, wants, withinBytes } from './memory-rows.ts'

/** A row that may be claimed, and the parked row before it, if that matters. */
interface Candidate {
  readonly row: MemoryRow
  readonly behind: string | undefined
}

/** The claimable rows of one destination: runs by key, and rows without a key. */
interface DestinationQueues {
  readonly runs: Map<string, Candidate[]>
  readonly keyless: Candidate[]
}

/**
 * With order per key: rows belong to the owner of their partition, and while a run of a key is in flight no more rows of that key are claimed. Where
 * other stores fence by an epoch, a takeover here removes the tokens from the rows: claims made before it are no longer valid.
 */
export class MemoryOrderedClaims implements MemoryClaims {
  readonly #rows: MemoryRows
  readonly #partitions: MemoryPartitions
  readonly #runtime: Runtime
  readonly #member: string
  /** The destination and keys served last: the next claim begins after them, so that all get a turn when the limit is small. */
  #lastDestination: string | undefined
  readonly #lastKeys = new Map<string, string>()

  constructor(rows: MemoryRows, partitions: MemoryPartitions, runtime: Runtime) {
    this.#rows = rows
    this.#partitions = partitions
    this.#runtime = runtime
    this.#member = runtime.uuid()
  }

  claim(options: ClaimOptions): readonly ClaimedRecord[] {
    const now = this.#runtime.now()
    this.#partitions.attend(this.#member, now + options.lease, now)
    this.#takeOver(this.#partitions.take(this.#member))
    const chosen = this.#choose(this.#queues(this.#keep(), options, now), options.limit)
    const taken = withinBytes(inTurns(chosen), options.maxBytes, ({ row }) => row)
    if (taken.length < chosen.length) this.#endTurn(taken)
    return taken.toSorted((a, b) => Number(a.row.id) - Number(b.row.id)).map((candidate) => this.#toClaimed(candidate, now))
  }

  renew(claims: readonly Claim[], lease: number): readonly boolean[] {
    const now = this.#runtime.now()
    // A member whose time is over has no claims to renew; it starts anew with its next claim.
    if (!this.#partitions.isLive(this.#member, now)) return claims.map(() => false)
    this.#partitions.attend(this.#member, now + lease, now)
    this.#keep()
    return claims.map((claim) => this.held(claim) !== undefined)
  }

  held({ id, token }: Claim): MemoryRow | undefined {
    const row = this.#rows.get(id)
    return row?.token === token && this.#owns(row) ? row : undefined
  }

  isHeld(row: MemoryRow): boolean {
    return row.token !== undefined
  }

  undo(row: MemoryRow): void {
    row.token = undefined
  }

  count(row: MemoryRow, { result }: Outcome): void {
    if (result !== 'published') row.attempts += 1
  }

  leave(): void {
    this.#partitions.leave(this.#member)
    this.#rows.wake()
  }

  owned(): readonly number[] {
    return this.#partitions.isLive(this.#member, this.#runtime.now()) ? this.#partitions.of(this.#member) : []
  }

  partitionOf(row: MemoryRow): number {
    return partitionOf(row)
  }

  /** Counts an attempt for rows that were in flight at the lost owner: one of them may be what crashed it. */
  #takeOver(taken: readonly number[]): void {
    if (taken.length === 0) return
    for (const row of this.#rows.all()) {
      if (row.token === undefined || !taken.includes(partitionOf(row))) continue
      row.attempts += 1
      row.token = undefined
    }
  }

  /** Hands over the partitions above our share, as far as possible now. Returns the partitions to claim from. */
  #keep(): ReadonlySet<number> {
    const inFlight = new Set<number>()
    for (const row of this.#rows.all()) if (row.token !== undefined && this.#owns(row)) inFlight.add(partitionOf(row))
    const { kept, freed } = this.#partitions.yieldSurplus(this.#member, inFlight)
    if (freed > 0) this.#rows.wake()
    return kept
  }

  #queues(partitions: ReadonlySet<number>, options: ClaimOptions, now: number): Map<string, DestinationQueues> {
    const queues = new Map<string, DestinationQueues>()
    const rows = [...this.#rows.all()].filter((row) => wants(options, row) && partitions.has(partitionOf(row)))
    const ended = new Set(rows.filter(({ token }) => token !== undefined).map(queueKeyOf))
    const parked = new Map<string, string>()
    for (const row of rows) {
      const key = orderingKeyOf(row)
      const { runs, keyless } = getOrAdd(queues, row.destination, () => ({ runs: new Map(), keyless: [] }))
      const isDue = isPending(row) && row.availableAt <= now
      if (key === undefined) {
        if (isDue && row.token === undefined) keyless.push({ row, behind: undefined })
        continue
      }
      const queueKey = queueKeyOf(row)
      if (row.state === 'published' || ended.has(queueKey)) continue
      if (row.state === 'parked' && options.behindParked !== 'kept') {
        if (options.behindParked === 'marked' && !parked.has(queueKey)) parked.set(queueKey, row.id)
      } else if (isDue) getOrAdd(runs, key, () => []).push({ row, behind: parked.get(queueKey) })
      else ended.add(queueKey)
    }
    return queues
  }

  /** Evenly over the destinations; within each, half from the keys and half from the rows without a key; evenly over the keys. */
  #choose(queues: ReadonlyMap<string, DestinationQueues>, limit: number): Candidate[] {
    const destinations = [...queues].map(([destination, { runs, keyless }]) => {
      const keyed = [...runs.values()].reduce((sum, run) => sum + run.length, 0)
      return { name: destination, runs, keyless, keyed, size: keyed + keyless.length }
    })
    const turn = startAfter(this.#lastDestination, destinations)
    return fillEvenly(
      limit,
      turn.map(({ size }) => size),
    ).flatMap((quota, index) => {
      const one = turn[index]
      if (one === undefined || quota === 0) return []
      this.#lastDestination = one.name
      const [keyed = 0, keyless = 0] = fillEvenly(quota, [one.keyed, one.keyless.length])
      return [...this.#chooseRuns(one.name, one.runs, keyed), ...one.keyless.slice(0, keyless)]
    })
  }

  #chooseRuns(destination: string, runs: ReadonlyMap<string, readonly Candidate[]>, limit: number): Candidate[] {
    const turn = startAfter(
      this.#lastKeys.get(destination),
      [...runs].map(([name, run]) => ({ name, run })),
    )
    return fillEvenly(
      limit,
      turn.map(({ run }) => run.length),
    ).flatMap((length, index) => {
      const one = turn[index]
      if (one === undefined || length === 0) return []
      this.#lastKeys.set(destination, one.name)
      return one.run.slice(0, length)
    })
  }

  /** The byte limit ended the claim early: rows that were chosen and not claimed come first the next time. */
  #endTurn(taken: readonly Candidate[]): void {
    for (const { row } of taken) {
      const key = orderingKeyOf(row)
      this.#lastDestination = row.destination
      if (key !== undefined) this.#lastKeys.set(row.destination, key)
    }
  }

  #toClaimed({ row, behind }: Candidate, now: number): ClaimedRecord {
    row.token = this.#runtime.uuid()
    const claimed = claimedRecord(row, row.token, row.attempts + 1, now)
    return behind === undefined ? claimed : { ...claimed, behind }
  }

  #owns(row: MemoryRow): boolean {
    return this.#partitions.owns(this.#member, partitionOf(row), this.#runtime.now())
  }
}

function partitionOf(row: MemoryRow): number {
  return memoryPartitionOf(orderingKeyOf(row) ?? row.id)
}

/** Identifies the destination and the key together. */
function queueKeyOf(row: MemoryRow): string {
  return JSON.stringify([row.destination, orderingKeyOf(row)])
}

function getOrAdd<K, V>(map: Map<K, V>, key: K, create: () => V): V {
  let value = map.get(key)
  if (value === undefined) {
    value = create()
    map.set(key, value)
  }
  return value
}

/**
 * The items sorted by name, starting after `last`. By name, not by age: the age of the waiting rows changes with every claim, and taking turns needs
 * a stable order.
 */
function startAfter<T extends { readonly name: string }>(last: string | undefined, items: readonly T[]): T[] {
  const sorted = items.toSorted((a, b) => (a.name < b.name ? -1 : 1))
  const start = last === undefined ? 0 : sorted.findIndex(({ name }) => name > last)
  return start <= 0 ? sorted : [...sorted.slice(start), ...sorted.slice(0, start)]
}

/** One row of each run, then a second of each, so that a limit in bytes cuts runs at their ends and treats all alike. */
function inTurns(chosen: readonly Candidate[]): readonly Candidate[] {
  const lengths = new Map<string, number>()
  return chosen
    .map((candidate) => {
      const { row } = candidate
      const queueKey = orderingKeyOf(row) === undefined ? row.destination : queueKeyOf(row)
      const turn = lengths.get(queueKey) ?? 0
      lengths.set(queueKey, turn + 1)
      return { candidate, turn }
    })
    .toSorted((a, b) => a.turn - b.turn)
    .map(({ candidate }) => candidate)
}

const partitionCount = 256

/**
 * Tracks which store object owns which partition. A member is live while it claims or renews before its time is over; the live members share the
 * partitions evenly.
 *
 *     free  ─ a member below its share claims ─▶ owned ─ the owner leaves, or its time is over ─▶ free
 *     owned ─ the owner is above its share ────▶ draining: no more claims from it ─ nothing is in flight ─▶ free
 */
export class MemoryPartitions {
  /** Until when each member is live. */
  readonly #members = new Map<string, number>()
  readonly #owners: (string | undefined)[] = Array.from({ length: partitionCount })

  isLive(member: string, now: number): boolean {
    return (this.#members.get(member) ?? 0) > now
  }

  owns(member: string, partition: number, now: number): boolean {
    return this.#owners[partition] === member && this.isLive(member, now)
  }

  /** Extends a member's time. A member that is too late starts anew. */
  attend(member: string, until: number, now: number): void {
    for (const one of [...this.#members.keys()]) if (!this.isLive(one, now)) this.leave(one)
    this.#members.set(member, until)
  }

  leave(member: string): void {
    this.#members.delete(member)
    for (const partition of this.of(member)) this.#owners[partition] = undefined
  }

  /** Assigns free partitions to a member that is below its share. */
  take(member: string): readonly number[] {
    const taken = this.of(undefined).slice(0, Math.max(0, this.#share - this.of(member).length))
    for (const partition of taken) this.#owners[partition] = member
    return taken
  }

  /** Frees partitions above a member's share that have nothing in flight. Returns those that it keeps and may claim from, and the number that it freed. */
  yieldSurplus(member: string, inFlight: ReadonlySet<number>): { readonly kept: ReadonlySet<number>; readonly freed: number } {
    const kept = new Set(this.of(member))
    // The highest numbers first, so that the next call picks the same ones again: otherwise none would ever be drained.
    const candidates = [...kept].reverse()
    const surplus = [...candidates.filter((one) => !inFlight.has(one)), ...candidates.filter((one) => inFlight.has(one))].slice(
      0,
      Math.max(0, kept.size - this.#share),
    )
    let freed = 0
    for (const partition of surplus) {
      kept.delete(partition)
      if (inFlight.has(partition)) continue
      this.#owners[partition] = undefined
      freed += 1
    }
    return { kept, freed }
  }

  get #share(): number {
    return Math.ceil(partitionCount / this.#members.size)
  }

  of(owner: string | undefined): number[] {
    return [...this.#owners.keys()].filter((partition) => this.#owners[partition] === owner)
  }
}

/** Any hash works: unlike in a database, it is never stored. */
function memoryPartitionOf(key: string): number {
  let hash = 0
  for (let index = 0; index < key.length; index += 1) hash = Math.imul(hash ^ key.charCodeAt(index), 0x01000193)
  return ((hash >>> 16) ^ hash) & (partitionCount - 1)
}

/** Divides `limit` evenly over queues of these sizes, up to the size of each. An indivisible remainder goes to the first queues. */
export function fillEvenly(limit: number, sizes: readonly number[]): readonly number[] {
  const amounts = sizes.map(() => 0)
  let left = limit
  let open = [...sizes.entries()].filter(([, size]) => size > 0)
  while (left > 0 && open.length > 0) {
    const each = Math.max(1, Math.floor(left / open.length))
    for (const [index, size] of open) {
      const amount = amounts[index] ?? 0
      const more = Math.min(each, size - amount, left)
      amounts[index] = amount + more
      left -= more
    }
    open = open.filter(([index, size]) => (amounts[index] ?? 0) < size)
  }
  return amounts
}
