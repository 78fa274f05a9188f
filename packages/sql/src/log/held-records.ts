import type { LogCursor, LogMove, LogPosition, LogRange } from '../contract/log-statements.ts'
import type { InFlightRow } from '../contract/ownership-statements.ts'
import { bytesOf } from '../records/claim-bytes.ts'
import { compareSeq } from '../records/claimed-record.ts'
import type { Row } from '../records/row.ts'

/** More seqs than this in a cursor are worth looking for a shorter list. */
const manySeqs = 500

interface ChunkOptions {
  readonly start: LogPosition
  readonly end: LogPosition
  readonly moved: readonly string[]
  readonly readAt: number
}

/** The records that one statement has read and that are not done. */
export class Chunk {
  /** How far the reading was before. */
  readonly #start: LogPosition
  /** The snapshot up to which it has read. */
  readonly #until: Omit<LogRange, 'seq'>
  /** The seqs that were read, ascending, and the number of those that are done without a gap. */
  #seqs: readonly string[] = []
  #next = 0
  /** The seqs beyond it that are done. */
  readonly #done: Set<string>
  /** The seqs of later reads that are done. A position in this chunk need not show any of them. */
  readonly #later: string[] = []
  /** By the runtime's clock: when it was read. */
  readonly readAt: number
  end: LogPosition
  open = 0

  /** `moved`: the seqs of records that were moved to the outbox table right away. */
  constructor({ start, end, moved, readAt }: ChunkOptions) {
    this.#start = start
    this.end = end
    this.readAt = readAt
    this.#until = end.range ?? { until: end.snapshot, floor: end.floor }
    this.#done = new Set(moved)
  }

  hold(seqs: readonly string[]): void {
    this.#seqs = seqs
    this.open = seqs.length
  }

  /** Adds the seqs that are done of a later read, if it has left nothing open. */
  extend({ end, done }: { readonly end: LogPosition; readonly done: Iterable<string> }): void {
    this.end = end
    this.#later.push(...done)
  }

  /** The seqs beyond its records that are done. */
  get done(): readonly string[] {
    return [...this.#done, ...this.#later]
  }

  /** The position up to which everything is done, and the seqs that are done beyond it, after these records are done too. */
  progress(finished: ReadonlySet<string>): { readonly position: LogPosition; readonly done: readonly string[] } {
    const next = this.#nextAfter((seq) => this.#done.has(seq) || finished.has(seq))
    const last = this.#seqs[next - 1]
    const isBeyond = (seq: string) => last === undefined || compareSeq(seq, last) > 0
    const done = [...[...this.#done].filter(isBeyond), ...this.#later]
    for (let index = next; index < this.#seqs.length; index += 1) {
      const seq = this.#seqs[index] ?? ''
      if (finished.has(seq)) done.push(seq)
    }
    if (last === undefined) return { position: this.#start, done }
    return { position: { snapshot: this.#start.snapshot, floor: this.#start.floor, range: { ...this.#until, seq: last } }, done }
  }

  /** Everything that is done. */
  allDone(finished: ReadonlySet<string>): readonly string[] {
    const passed = this.#seqs.slice(0, this.#next)
    return [...passed, ...this.done, ...this.#seqs.slice(this.#next).filter((seq) => finished.has(seq))]
  }

  finish(seq: string): void {
    this.open -= 1
    this.#done.add(seq)
    const next = this.#nextAfter((one) => this.#done.has(one))
    for (let index = this.#next; index < next; index += 1) this.#done.delete(this.#seqs[index] ?? '')
    this.#next = next
  }

  #nextAfter(isDone: (seq: string) => boolean): number {
    let next = this.#next
    while (next < this.#seqs.length && isDone(this.#seqs[next] ?? '')) next += 1
    return next
  }
}

interface LogGroupOptions {
  readonly partitions: readonly number[]
  readonly position: LogPosition
  readonly done: readonly string[]
  readonly generation: string
  readonly now: number
}

/** Partitions that are read together. */
export class LogGroup {
  readonly partitions: Set<number>
  /** The position up to which it was read, and that up to which everything is done. */
  read: LogPosition
  #done: LogPosition
  /** Records that were done before they were read here. */
  readonly #doneBefore: string[]
  /** The snapshot up to which the former owner was reading. It need not show all of `#doneBefore`; every snapshot that was taken here does. */
  readonly #inherited: string | undefined
  /** Those that are not done, and those between them, in the order in which they were read. */
  #chunks: Chunk[] = []
  /** By the runtime's clock: when the cursor was written. */
  writtenAt: number
  /** The generation of the last cursor of all of its partitions. */
  generation: string
  /** The records that a write would have finished, if its outcome is unknown. */
  unknown: ReadonlyMap<string, LogMove | undefined> | undefined

  constructor({ partitions, position, done, generation, now }: LogGroupOptions) {
    this.partitions = new Set(partitions)
    this.generation = generation
    this.read = position
    this.#done = position
    this.#doneBefore = [...done]
    this.#inherited = position.range?.until
    this.writtenAt = now
  }

  /** Whether it can be read together with another one that was read equally far. */
  get isDone(): boolean {
    return this.#chunks.length === 0 && this.#doneBefore.length === 0 && this.read.range === undefined && this.unknown === undefined
  }

  /** Records beyond what was read that are done. */
  get doneBefore(): readonly string[] {
    return this.#doneBefore
  }

  /** Records that were done elsewhere, and must not be read. */
  skip(seqs: readonly string[]): void {
    this.#doneBefore.push(...seqs)
  }

  /** Takes over the partitions of a group that has been read equally far and has nothing open. */
  include({ partitions, generation }: LogGroup): void {
    for (const partition of partitions) this.partitions.add(partition)
    if (compareSeq(generation, this.generation) > 0) this.generation = generation
  }

  /** The cursor if everything that was read is done. */
  end(firstEntry: string | undefined): LogCursor {
    return { position: this.read, open: [], done: this.#doneBefore, firstEntry }
  }

  /** Adds the records that one statement has read. */
  add(chunk: Chunk): void {
    this.read = chunk.end
    // A complete read has passed all of them, unless it is the former owner's.
    if (chunk.end.range === undefined && chunk.end.snapshot !== this.#inherited)
      chunk.extend({ end: chunk.end, done: this.#doneBefore.splice(0) })
    const last = this.#chunks.at(-1)
    if (chunk.open > 0) this.#chunks.push(chunk)
    else if (last === undefined) this.#done = chunk.end
    else last.extend(chunk)
  }

  /** The cursor after these records are done. If much is done beyond the position, it lists what is open instead. */
  cursor(held: HeldRecords, finished: ReadonlySet<string>, latestEntry: string | undefined): LogCursor {
    const openAfter = new Map(this.#chunks.map((chunk) => [chunk, chunk.open]))
    for (const seq of finished) {
      const record = held.all.get(seq)
      if (record?.group === this) openAfter.set(record.chunk, (openAfter.get(record.chunk) ?? 0) - 1)
    }
    const first = this.#chunks.findIndex((chunk) => openAfter.get(chunk) !== 0)
    const [chunk, ...later] = first === -1 ? [] : this.#chunks.slice(first)
    const before = this.#doneBefore
    const firstEntry = held.firstEntry(finished, latestEntry)
    if (chunk === undefined) return { position: this.#chunks.at(-1)?.end ?? this.#done, open: [], done: before, firstEntry }
    const progress = chunk.progress(finished)
    const done = [...progress.done, ...later.flatMap((one) => one.allDone(finished))]
    if (done.length > manySeqs) {
      const open = [...held.all.values()].filter(({ group, seq }) => group === this && !finished.has(seq)).map(({ seq }) => seq)
      if (open.length < done.length) return { position: this.read, open, done: before, firstEntry }
    }
    return { position: progress.position, open: [], done: [...done, ...before], firstEntry }
  }

  /** A record is done. */
  finish({ chunk, seq }: HeldRecord): void {
    chunk.finish(seq)
    const first = this.#chunks.findIndex(({ open }) => open > 0)
    const finished = first === -1 ? this.#chunks.length : first
    if (finished === 0) return
    this.#done = this.#chunks[finished - 1]?.end ?? this.#done
    this.#chunks = this.#chunks.slice(finished)
  }
}

/** A record of the log that was read and is not done. */
export interface HeldRecord extends InFlightRow {
  readonly row: Row
  readonly group: LogGroup
  readonly chunk: Chunk
  /** Destination and key, if it has one. */
  readonly keyName: string | undefined
  readonly bytes: number
  /** Whether a relay has claimed it, and the entry of the claim journal that records this. */
  isClaimed: boolean
  entry: string | undefined
}

/**
 * The records of the log that were read and are not done, by seq and by key. A change of a record that is not held any more is ignored: an answer of the database may come after the
 * record was removed.
 */
export class HeldRecords {
  readonly #bySeq = new Map<string, HeldRecord>()
  readonly #byKey = new Map<string, HeldRecord[]>()
  /** Those that no relay has claimed, by seq unless one was released. */
  #idle = new Set<HeldRecord>()
  #isSorted = true
  #idleBytes = 0
  /** The number of claimed records of each entry of the claim journal. */
  readonly #entries = new Map<string, number>()

  get all(): ReadonlyMap<string, HeldRecord> {
    return this.#bySeq
  }

  /** Those that no relay has claimed, by seq. */
  get idle(): ReadonlySet<HeldRecord> {
    if (!this.#isSorted) this.#idle = new Set([...this.#idle].sort((one, other) => compareSeq(one.seq, other.seq)))
    this.#isSorted = true
    return this.#idle
  }

  get idleBytes(): number {
    return this.#idleBytes
  }

  ofKey(keyName: string): readonly HeldRecord[] {
    return this.#byKey.get(keyName) ?? []
  }

  has(record: HeldRecord): boolean {
    return this.#bySeq.get(record.seq) === record
  }

  /** The first entry of the claim journal with records that are still in flight when these are done, but none after `latest`. */
  firstEntry(finished: ReadonlySet<string>, latest: string | undefined): string | undefined {
    const left = new Map(this.#entries)
    for (const seq of finished) {
      const { entry, isClaimed } = this.#bySeq.get(seq) ?? {}
      if (isClaimed === true && entry !== undefined) left.set(entry, (left.get(entry) ?? 0) - 1)
    }
    let first = latest
    for (const [entry, count] of left) if (count > 0 && (first === undefined || compareSeq(entry, first) < 0)) first = entry
    return first
  }

  add(record: HeldRecord): void {
    this.#bySeq.set(record.seq, record)
    this.#addIdle(record)
    if (record.keyName === undefined) return
    const others = this.#byKey.get(record.keyName)
    if (others === undefined) this.#byKey.set(record.keyName, [record])
    else others.push(record)
  }

  claim(record: HeldRecord, entry: string): void {
    if (!this.has(record)) return
    record.isClaimed = true
    this.#removeIdle(record)
    this.setEntry(record, entry)
  }

  /** Another entry of the claim journal records the claim. */
  setEntry(record: HeldRecord, entry: string | undefined): void {
    if (!this.has(record)) return
    if (record.entry !== undefined) this.#count(record.entry, -1)
    record.entry = entry
    if (entry !== undefined) this.#count(entry, 1)
  }

  /** The record can be claimed again. */
  release(record: HeldRecord): void {
    if (!this.has(record) || !record.isClaimed) return
    record.isClaimed = false
    this.setEntry(record, undefined)
    this.#addIdle(record)
    this.#isSorted = false
  }

  /** `false`: it was not held any more. */
  remove(record: HeldRecord): boolean {
    if (!this.has(record)) return false
    this.setEntry(record, undefined)
    this.#bySeq.delete(record.seq)
    this.#removeIdle(record)
    this.#removeFromKey(record)
    return true
  }

  #removeFromKey(record: HeldRecord): void {
    if (record.keyName === undefined) return
    const all = this.#byKey.get(record.keyName) ?? []
    const index = all.indexOf(record)
    if (index >= 0) all.splice(index, 1)
    if (all.length === 0) this.#byKey.delete(record.keyName)
  }

  #addIdle(record: HeldRecord): void {
    if (this.#idle.has(record)) return
    this.#idle.add(record)
    this.#idleBytes += record.bytes
  }

  #removeIdle(record: HeldRecord): void {
    if (this.#idle.delete(record)) this.#idleBytes -= record.bytes
  }

  #count(entry: string, change: number): void {
    const count = (this.#entries.get(entry) ?? 0) + change
    if (count > 0) this.#entries.set(entry, count)
    else this.#entries.delete(entry)
  }
}

export interface ChooseOptions {
  readonly limit: number
  readonly isAsked: (record: HeldRecord) => boolean
  /** Whether records of a key may be claimed. */
  readonly isFree: (keyName: string) => boolean
}

/** Records to claim, evenly: of each destination as many, of its keys as many as of its records without a key, of each key as many, and of each the first ones. */
export function chooseInTurns(held: HeldRecords, { limit, isAsked, isFree }: ChooseOptions): readonly HeldRecord[] {
  const byDestination = new Map<string, { readonly plain: HeldRecord[]; readonly runs: (readonly HeldRecord[])[] }>()
  const seen = new Set<string>()
  for (const record of held.idle) {
    const { destination, keyName } = record
    let queues = byDestination.get(destination)
    if (queues === undefined) {
      queues = { plain: [], runs: [] }
      byDestination.set(destination, queues)
    }
    if (keyName === undefined) {
      if (queues.plain.length < limit && isAsked(record)) queues.plain.push(record)
    } else if (queues.runs.length < limit && !seen.has(keyName)) {
      seen.add(keyName)
      const run = held.ofKey(keyName)
      if (isAsked(record) && isFree(keyName) && !run.some(({ isClaimed }) => isClaimed)) queues.runs.push(run)
    }
  }
  const queues = [...byDestination.values()]
    .flatMap(({ plain, runs }) => [plain, firstOfEach(runs, limit)])
    .filter(({ length }) => length > 0)
  if (queues.length === 1) return queues[0]?.slice(0, limit) ?? []
  const chosen: HeldRecord[] = []
  for (let turn = 0; chosen.length < limit && queues.some((queue) => turn < queue.length); turn += 1) {
    for (const queue of queues) {
      const record = queue[turn]
      if (record !== undefined && chosen.length < limit) chosen.push(record)
    }
  }
  return chosen
}

/** The first record of each run, then the second of each, and so on. */
function firstOfEach(runs: readonly (readonly HeldRecord[])[], limit: number): readonly HeldRecord[] {
  const records: HeldRecord[] = []
  let left = runs
  for (let turn = 0; left.length > 0 && records.length < limit; turn += 1) {
    for (const run of left) {
      const record = run[turn]
      if (record !== undefined) records.push(record)
    }
    left = left.filter((run) => turn + 1 < run.length)
  }
  return records
}

export function keyNameOf({ destination, key }: Pick<InFlightRow, 'destination' | 'key'>): string | undefined {
  return key === undefined ? undefined : JSON.stringify([destination, key])
}

/** The bytes of a row, as `ClaimOptions.maxBytes` counts them. */
export function sizeOf(row: Row): number {
  const bytes = bytesOf([row])
  // A row that was not read because of its size must not make the sum of others infinite forever.
  return Number.isFinite(bytes) ? bytes : Number.MAX_SAFE_INTEGER / 2 ** 20
}
