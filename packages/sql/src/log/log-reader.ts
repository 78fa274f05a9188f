import type { Logger, Runtime } from '@ackord/core'
import type { Outcome } from '@ackord/outbox'
import type { LogFloor, LogMove, LogPosition, LogRead, LogReadOptions, LogStatements } from '../contract/log-statements.ts'
import type { InFlightRow, MemberStatus, OwnedOutcome } from '../contract/ownership-statements.ts'
import { StatementQueue } from '../contract/statement-queue.ts'
import { compareSeq } from '../records/claimed-record.ts'
import type { Row } from '../records/row.ts'
import { Chunk, chooseInTurns, type HeldRecord, HeldRecords, keyNameOf, LogGroup, sizeOf } from './held-records.ts'
import type { LogRotation } from './log-rotation.ts'

export interface LogClaimOptions extends Pick<LogReadOptions, 'member' | 'limit' | 'maxBytes' | 'spent' | 'except' | 'behindParked'> {
  readonly destinations: readonly string[] | undefined
  /** Whether the outbox table has records with a key. */
  readonly anyKeys: boolean
  readonly mayClaimFrom: (partition: number, epoch: string) => boolean
}

export interface LogClaim {
  /** The latest status of the member, if a statement has returned one; `lost`: its lease had expired. */
  readonly status: MemberStatus | 'lost' | undefined
  readonly rows: readonly Row[]
  readonly cut: boolean
  /** Whether records were moved to the outbox table. */
  readonly moved: boolean
}

/** Statements per claim. */
const maxRounds = 6

/** The number of records that are read ahead, so that a claim can be shared by destinations and keys. */
const window = 4000

/** If nothing more can be read ahead, records of a key with more than this many are moved to the outbox table, so that a slow key does not hold up the others. */
const maxOfKey = 1000

/**
 * Milliseconds for which a record waits in memory while its destination is not asked for: the destination may only be busy for a moment. The first one if nothing more can be read
 * ahead, so that other destinations wait for it.
 */
const maxWaitOfOthers = 5000
const maxWait = 60_000

/** Milliseconds between two cursors of partitions without records. */
const keepInterval = 10_000

/** The state of a record of the log. */
export const logState = 'log'

interface Settling {
  readonly outcomes: readonly OwnedOutcome[]
  readonly resolve: (applied: ReadonlySet<string>) => void
  readonly reject: (error: unknown) => void
}

interface LogReaderOptions {
  readonly runtime: Runtime
  readonly logger: Logger
  readonly rotation: LogRotation
}

/**
 * Reads the log of the partitions that a member owns. Records that were read are kept in memory until they are published or moved to the outbox table; then the cursor is written.
 * Everything that cannot be published goes to the outbox table: failures, what is behind them, and what another relay takes over.
 *
 * Invariants:
 *
 * - `adopt`, `claim`, `handOver` and `end` run one after the other: none of them finds the partitions changed by another one. Only `settle` and `release` run beside them.
 * - Cursors are written one after the other, each from what is known when it is sent. If the outcome of a write is unknown, it is found out before the next one, after the server was told
 *   to refuse it if it arrives later.
 * - A reader belongs to one membership. When its lease is lost, a new reader replaces it, and late answers change nothing but the old one.
 * - At every moment another relay can continue from what the database has. So partitions may be forgotten here at any time; a record is only claimed after the claim journal records it; and
 *   records that a statement has moved count as done until a position covers them.
 * - A position covers only what its own snapshots show. What later reads have done is listed in addition.
 * - A statement takes effect only while the member is registered and the partitions have the epochs and the last cursor that this reader knows, and not after a recovery of the server.
 */
export class LogReader {
  readonly #statements: LogStatements
  readonly #runtime: Runtime
  readonly #logger: Logger
  readonly #rotation: LogRotation
  readonly #held = new HeldRecords()
  readonly #writing = new StatementQueue()
  #groups: LogGroup[] = []
  readonly #epochs = new Map<number, string>()
  /** The last seq that had been taken when the last statement began; `undefined` until the log was opened. */
  #floor: LogFloor | undefined
  /** The numbers of the next statements. */
  #turns = { reads: 0, writes: 0 }
  /** Keys with records in the outbox table, of which there were records here when they were moved. */
  readonly #movedKeys = new Set<string>()
  /** Destinations whose records have waited too long: until one of them is published from here, further records are moved when they are read. */
  readonly #slow = new Set<string>()
  #behindParked: LogClaimOptions['behindParked'] = 'given'
  #settling: Settling[] = []
  /** The last known entry of the claim journal. */
  #lastEntry = '0'
  /** Whether records are being read, or the outcome of the last read is unknown: it may record moved records in the claim journal, after `#lastEntry`. */
  #isReading = false
  /** Whether a statement may still run of which the outcome is unknown. */
  #mayRun = false
  /** Whether a cursor was refused, or the sequence was set back: this reader does not know what the database has, or is not registered any more. */
  #isRefused = false

  constructor(statements: LogStatements, { runtime, logger, rotation }: LogReaderOptions) {
    this.#statements = statements
    this.#runtime = runtime
    this.#logger = logger
    this.#rotation = rotation
  }

  /** Records that no relay has claimed: others of their keys must not be claimed from the outbox table. */
  get waiting(): readonly InFlightRow[] {
    return [...this.#held.idle].filter(({ key }) => key !== undefined)
  }

  /** Records of a key with a higher seq may have predecessors in the log that were not read yet. */
  get readUpTo(): string {
    return this.#groups
      .map(({ read }) => completeUpTo(read))
      .reduce((one, other) => (compareSeq(one, other) < 0 ? one : other), this.#floor?.seq ?? '0')
  }

  /** Whether records have been stored since `readUpTo`. */
  get #isBehind(): boolean {
    return compareSeq(this.readUpTo, this.#floor?.seq ?? '0') < 0
  }

  /** The partitions whose log is read, and their epochs. */
  get epochs(): ReadonlyMap<number, string> {
    return this.#epochs
  }

  /** Forgets partitions that the member does not own any more, and takes over new ones. */
  async adopt(member: string, epochs: ReadonlyMap<number, string>): Promise<void> {
    if (this.#floor === undefined) await this.#open(member)
    const owned = new Map(epochs)
    for (const [partition, epoch] of [...this.#epochs]) if (owned.get(partition) !== epoch) this.#forget(partition)
    const added = [...owned].filter(([partition]) => !this.#epochs.has(partition))
    if (added.length === 0) return
    await this.#writing.run(() => this.#refuseLateWrites(member))
    for (const last of await this.#statements.cursors(added.map(([partition]) => partition))) {
      const fenced = new Map(added.filter(([partition]) => last.partitions.includes(partition)))
      // If it is refused, the next claim tries again, or the lease was lost.
      const fence = { member, epochs: fenced, generation: last.generation, turn: this.#turns.writes }
      const generation = await this.#watch(this.#statements.takeOver(fence, last))
      if (generation === undefined) continue
      const { position, done } = last.cursor
      const now = this.#runtime.monotonic()
      this.#groups.push(new LogGroup({ partitions: last.partitions, position, done: [...done, ...last.claimed], generation, now }))
      for (const [partition, epoch] of fenced) this.#epochs.set(partition, epoch)
    }
  }

  async claim(options: LogClaimOptions): Promise<LogClaim> {
    const strays = await this.#moveStrays(options)
    if (this.#isRefused) return { status: 'lost', rows: [], cut: false, moved: strays }
    let read = await this.#readAhead(options)
    if (read.status === 'lost') return { ...read, rows: [], cut: false }
    // The outbox table may have records whose predecessors in the log were not read.
    if ((read.moved || options.anyKeys) && this.#isBehind) {
      const again = await this.#readAhead(options)
      if (again.status === 'lost') return { ...again, rows: [], cut: false }
      read = { status: again.status ?? read.status, moved: read.moved || again.moved }
    }
    if (this.#isRefused) return { status: 'lost', rows: [], cut: false, moved: read.moved }
    const { records: chosen, cut } = this.#choose(options)
    const records = await this.#recordClaim(chosen, options)
    if (records === 'lost') return { status: 'lost', rows: [], cut: false, moved: read.moved }
    await this.#keep(options)
    return { status: read.status, rows: records.map(({ row }) => row), cut, moved: read.moved || strays }
  }

  /** The columns `seq`, `data` and `attributes` of records. */
  contents(seqs: readonly string[]): Promise<readonly Row[]> {
    return this.#statements.contents(seqs)
  }

  /** Resolves to the seqs that were applied. Calls that wait for another are written together. */
  settle(member: string, outcomes: readonly OwnedOutcome[]): Promise<ReadonlySet<string>> {
    return new Promise((resolve, reject) => {
      this.#settling.push({ outcomes, resolve, reject })
      if (this.#settling.length > 1) return
      void this.#writing.run(async () => {
        const settling = this.#settling
        this.#settling = []
        try {
          const applied = await this.#apply(
            member,
            settling.flatMap(({ outcomes: some }) => some),
          )
          for (const one of settling) one.resolve(applied)
        } catch (error) {
          for (const one of settling) one.reject(error)
        }
      })
    })
  }

  /** A relay returns a record. */
  release({ seq, epoch }: Pick<InFlightRow, 'seq' | 'epoch'>): void {
    const record = this.#held.all.get(seq)
    if (record?.epoch === epoch) this.#held.release(record)
  }

  /** Before partitions are handed over: nothing of them is in flight. */
  async handOver(member: string, partitions: readonly number[]): Promise<void> {
    await this.#writing.run(async () => {
      for (const group of [...this.#groups])
        await this.#end(
          group,
          member,
          partitions.filter((one) => group.partitions.has(one)),
          0,
        )
      // In the same turn: a cursor that is written later must not include them.
      for (const partition of partitions) this.#forget(partition)
      // Nothing must move records after the next owner has read them.
      if (this.#isReading) await this.#refuseLateReads(member)
      await this.#refuseLateWrites(member)
    })
  }

  /** Before the member leaves. What is in flight counts as an attempt. */
  async end(member: string): Promise<void> {
    await this.#writing.run(async () => {
      for (const group of [...this.#groups]) await this.#end(group, member, [...group.partitions], 1)
    })
  }

  async #open(member: string): Promise<void> {
    const { floor, restored } = await this.#statements.open(member)
    this.#floor = floor
    this.#rotation.begin()
    if (restored)
      this.#logger.warn({}, 'The log of the outbox was restored from a dump. Its unpublished records were moved to the outbox table.')
  }

  async #readGroup(group: LogGroup, options: LogClaimOptions, target: LogPosition | undefined): Promise<LogRead> {
    const { member, limit, maxBytes, spent, behindParked } = options
    if (this.#isReading) await this.#recoverMoved(member)
    const { read: position } = group
    const readAt = this.#runtime.monotonic()
    this.#isReading = true
    const answer = await this.#statements.read({
      member,
      turn: this.#turns.reads,
      limit,
      maxBytes,
      spent,
      behindParked,
      epochs: this.#epochsOf(group.partitions),
      except: [...this.#slow].filter((destination) => !isAsked(destination, options)),
      position,
      done: group.doneBefore,
      until: target,
      floor: this.#floor ?? noFloor,
    })
    if (answer.status !== undefined) {
      const change = compareSeq(answer.floor.seq, this.#floor?.seq ?? '0')
      // The sequence was set back: new records have numbers that count as read. The next reader finds that out when it opens the log.
      if (change < 0) this.#isRefused = true
      if (change > 0) this.#floor = answer.floor
      this.#lastEntry = laterSeq(this.#lastEntry, answer.entry ?? '0')
      this.#hold(group, answer.rows, new Chunk({ start: position, end: answer.position, moved: answer.moved, readAt }))
    }
    this.#isReading = false
    return answer
  }

  /** A read whose answer was lost may have moved records. They must not be read again. */
  async #recoverMoved(member: string): Promise<void> {
    await this.#refuseLateReads(member)
    const { entry, moved } = await this.#statements.movedSince(member, this.#lastEntry)
    // The seqs do not say of which group they are: in that of another one, they do no harm.
    for (const group of this.#groups) group.skip(moved)
    this.#lastEntry = laterSeq(this.#lastEntry, entry)
    this.#isReading = false
  }

  async #refuseLateReads(member: string): Promise<void> {
    this.#turns.reads += 1
    await this.#statements.refuseLate(member, this.#turns)
  }

  /** In its turn among the writes: a write that is under way would be refused, too. A takeover that is refused by this is tried again. */
  async #refuseLateWrites(member: string): Promise<void> {
    if (!this.#mayRun) return
    // Before the call: another takeover may have an unknown outcome meanwhile.
    this.#mayRun = false
    this.#turns.writes += 1
    await this.#watch(this.#statements.refuseLate(member, this.#turns))
  }

  /** Reads until all groups are read up to the same snapshot, or until there are enough records in memory. */
  async #readAhead(options: LogClaimOptions): Promise<Pick<LogClaim, 'status' | 'moved'>> {
    const most = Math.max(window, options.limit)
    let status: LogClaim['status']
    let moved = false
    let target: LogPosition | undefined
    const complete = new Set<LogGroup>()
    for (let round = 0; round < maxRounds; round += 1) {
      const group = this.#groups.find((one) => !complete.has(one))
      if (group === undefined || this.#isFull(options)) break
      const spent = this.#spentBytes(options)
      const until = group.read.range?.until ?? target?.snapshot
      const answer = await this.#readGroup(group, { ...options, limit: most - this.#held.idle.size, spent }, target)
      if (answer.status === undefined) return { status: 'lost', moved }
      status = answer.status
      moved ||= answer.moved.length > 0
      if (answer.complete && until === undefined) target = answer.position
      if (target !== undefined && group.read.range === undefined && group.read.snapshot === target.snapshot) complete.add(group)
      if (answer.cut) break
    }
    this.#mergeGroups()
    return { status, moved }
  }

  /** Whether there are so many records in memory that no more are read. */
  #isFull(options: LogClaimOptions): boolean {
    const { limit, maxBytes = Infinity } = options
    return this.#held.idle.size > Math.max(window, limit) / 2 || this.#spentBytes(options) >= maxBytes
  }

  #spentBytes({ spent, maxBytes }: LogClaimOptions): number {
    return spent + (maxBytes === undefined ? 0 : this.#held.idleBytes)
  }

  #forget(partition: number): void {
    if (!this.#epochs.delete(partition)) return
    for (const record of [...this.#held.all.values()]) {
      if (record.partition === partition && this.#held.remove(record)) record.group.finish(record)
    }
    for (const group of this.#groups) group.partitions.delete(partition)
    this.#groups = this.#groups.filter(({ partitions }) => partitions.size > 0)
  }

  #hold(group: LogGroup, rows: readonly Row[], chunk: Chunk): void {
    const records = rows.map((row) => heldRecordOf(row, group, chunk, this.#epochs))
    chunk.hold(records.map(({ seq }) => seq))
    group.add(chunk)
    for (const record of records) this.#held.add(record)
  }

  /** Chooses records that are in memory, evenly: of each destination as many, of each key as many, and of a key the first ones. */
  #choose(options: LogClaimOptions): { readonly records: readonly HeldRecord[]; readonly cut: boolean } {
    const { limit, maxBytes = Infinity, spent, mayClaimFrom } = options
    const mayBeClaimed = ({ destination, partition, epoch }: HeldRecord) => isAsked(destination, options) && mayClaimFrom(partition, epoch)
    const records = chooseInTurns(this.#held, { limit, isAsked: mayBeClaimed, isFree: (key) => !this.#movedKeys.has(key) })
    if (maxBytes === Infinity) return { records, cut: false }
    let bytes = spent
    const end = records.findIndex((record) => {
      const isFirst = bytes === 0
      bytes += record.bytes
      return bytes > maxBytes && !isFirst
    })
    return end === -1 ? { records, cut: bytes >= maxBytes } : { records: records.slice(0, end), cut: true }
  }

  /** Records the claim in the claim journal: if the relay disappears, that counts as an attempt. Resolves to the records that it may publish. */
  async #recordClaim(records: readonly HeldRecord[], { member }: LogClaimOptions): Promise<readonly HeldRecord[] | 'lost'> {
    if (records.length === 0) return []
    // A cursor that is written meanwhile must not hide the entry.
    for (const record of records) this.#held.claim(record, this.#lastEntry)
    const releaseAll = () => {
      for (const record of records) this.#held.release(record)
    }
    try {
      const recorded = await this.#statements.recordClaim(
        member,
        records.map(({ seq }) => seq),
      )
      if (recorded === undefined) {
        releaseAll()
        return 'lost'
      }
      const { entry, taken } = recorded
      for (const record of records) this.#held.setEntry(record, entry)
      this.#lastEntry = laterSeq(this.#lastEntry, entry)
      return taken.length === 0 ? records : await this.#withhold(new Set(taken), records, member)
    } catch (error) {
      releaseAll()
      throw error
    }
  }

  /** An operator has moved some of these records to the outbox table. What follows them in their keys must go there, too. Resolves to the others. */
  async #withhold(taken: ReadonlySet<string>, records: readonly HeldRecord[], member: string): Promise<readonly HeldRecord[]> {
    const others: HeldRecord[] = []
    for (const { seq, keyName } of records) if (taken.has(seq) && keyName !== undefined) this.#movedKeys.add(keyName)
    for (const record of records) {
      if (taken.has(record.seq)) continue
      if (record.keyName !== undefined && this.#movedKeys.has(record.keyName)) this.#held.release(record)
      else others.push(record)
    }
    await this.#writing.run(() => this.#finish(member, new Map([...taken].map((seq) => [seq, undefined]))))
    return others
  }

  /**
   * Moves records to the outbox table that must not be claimed from here: behind records that are there, or records that have waited for too long for a destination or key that is
   * slower than the others.
   */
  async #moveStrays(options: LogClaimOptions): Promise<boolean> {
    const { destinations, except, behindParked } = options
    const changed = behindParked !== this.#behindParked
    this.#behindParked = behindParked
    const isFull = this.#isFull(options)
    if (!changed && !isFull && except.length === 0 && destinations === undefined && this.#movedKeys.size === 0) return false
    const readBefore = this.#runtime.monotonic() - (isFull ? maxWaitOfOthers : maxWait)
    const idle = [...this.#held.idle]
    const behind = idle.filter(({ keyName }) => keyName !== undefined && (changed || this.#movedKeys.has(keyName)))
    const old = idle.filter(({ chunk }) => chunk.readAt <= readBefore)
    const unasked = old.filter(({ destination }) => !isAsked(destination, options))
    const crowded = isFull ? idle.filter(({ keyName }) => keyName !== undefined && this.#held.ofKey(keyName).length > maxOfKey) : []
    for (const { destination } of unasked) this.#slow.add(destination)
    const moved = await this.#move([...new Set([...behind, ...unasked, ...crowded])], options)
    for (const key of this.#movedKeys) if (this.#held.ofKey(key).length === 0) this.#movedKeys.delete(key)
    return moved
  }

  async #move(records: readonly HeldRecord[], { member }: LogClaimOptions): Promise<boolean> {
    if (records.length === 0) return false
    await this.#writing.run(() => this.#finish(member, new Map(records.map(({ seq }) => [seq, { seq, outcome: undefined, attempts: 0 }]))))
    return true
  }

  async #apply(member: string, outcomes: readonly OwnedOutcome[]): Promise<ReadonlySet<string>> {
    const finished = new Map<string, LogMove | undefined>()
    for (const { row, outcome } of outcomes) {
      const record = this.#held.all.get(row.seq)
      if (record === undefined || record.epoch !== row.epoch) continue
      finished.set(row.seq, moveOf(row.seq, outcome))
      if (outcome.result === 'published') this.#slow.delete(record.destination)
      if (outcome.result === 'published' || record.keyName === undefined) continue
      // Records behind it in its key that are not claimed follow it.
      for (const { seq, isClaimed } of this.#held.ofKey(record.keyName)) {
        if (!isClaimed && !finished.has(seq)) finished.set(seq, { seq, outcome: undefined, attempts: 0 })
      }
    }
    return await this.#finish(member, finished)
  }

  /** Writes the cursors after these records are done: published, or moved. Resolves to those that were applied. */
  async #finish(member: string, finished: ReadonlyMap<string, LogMove | undefined>): Promise<ReadonlySet<string>> {
    const applied = new Set<string>()
    for (const group of [...this.#groups]) {
      const all = [...finished.keys()].map((seq) => this.#held.all.get(seq)).filter((record) => record?.group === group) as HeldRecord[]
      if (all.length === 0) continue
      await this.#resolve(group, member)
      const records = all.filter((record) => this.#held.has(record))
      for (const record of all) if (!records.includes(record)) applied.add(record.seq)
      if (records.length === 0) continue
      const ofGroup = new Map(records.map(({ seq }) => [seq, finished.get(seq)]))
      if (!(await this.#write(group, member, ofGroup))) {
        for (const record of records) this.#held.release(record)
        continue
      }
      for (const { seq } of records) applied.add(seq)
      this.#remove(group, ofGroup)
    }
    return applied
  }

  /** Writes the cursor after these records are done. */
  async #write(group: LogGroup, member: string, finished: ReadonlyMap<string, LogMove | undefined>): Promise<boolean> {
    const moves = [...finished.values()].filter((move) => move !== undefined)
    // A read may be recording moved records.
    const cursor = group.cursor(this.#held, new Set(finished.keys()), this.#isReading ? this.#lastEntry : undefined)
    const { generation: before, partitions } = group
    const startedAt = this.#runtime.monotonic()
    group.unknown = finished
    const generation = await this.#watch(
      this.#statements.write({ member, epochs: this.#epochsOf(partitions), generation: before, turn: this.#turns.writes }, cursor, moves),
    )
    group.unknown = undefined
    if (generation === undefined) {
      this.#isRefused = true
      return false
    }
    group.generation = generation
    group.writtenAt = startedAt
    return true
  }

  /** Finds out whether a write has been applied whose outcome is unknown. */
  async #resolve(group: LogGroup, member: string): Promise<void> {
    const [partition] = group.partitions
    if (group.unknown === undefined || partition === undefined) return
    await this.#refuseLateWrites(member)
    const last = await this.#statements.lastGeneration(partition)
    const finished = group.unknown
    group.unknown = undefined
    if (compareSeq(last, group.generation) <= 0) return
    group.generation = last
    this.#remove(group, finished)
  }

  /** These records are done. */
  #remove(group: LogGroup, finished: ReadonlyMap<string, LogMove | undefined>): void {
    for (const [seq, move] of finished) {
      const record = this.#held.all.get(seq)
      if (record?.group !== group) continue
      this.#held.remove(record)
      group.finish(record)
      if (record.keyName !== undefined && move !== undefined) this.#movedKeys.add(record.keyName)
    }
  }

  async #watch<T>(writing: Promise<T>): Promise<T> {
    try {
      return await writing
    } catch (error) {
      this.#mayRun = true
      throw error
    }
  }

  #epochsOf(partitions: Iterable<number>): ReadonlyMap<number, string> {
    return new Map([...partitions].map((partition) => [partition, this.#epochs.get(partition) ?? '-1']))
  }

  /** Moves all records of these partitions that are in memory, so that the next owner can continue where this one has read. */
  async #end(group: LogGroup, member: string, partitions: readonly number[], attempts: number): Promise<void> {
    if (partitions.length === 0) return
    await this.#resolve(group, member)
    const chosen = new Set(partitions)
    const records = [...this.#held.all.values()].filter(({ partition }) => chosen.has(partition))
    const moves = records.map(({ seq, isClaimed }) => ({ seq, outcome: undefined, attempts: isClaimed ? attempts : 0 }))
    const fence = { member, epochs: this.#epochsOf(partitions), generation: group.generation, turn: this.#turns.writes }
    // If it is refused or fails, the next owner continues from the last cursor.
    await this.#watch(this.#statements.write(fence, group.end(this.#isReading ? this.#lastEntry : undefined), moves))
  }

  /** Groups that have been read equally far, and have nothing open, become one. */
  #mergeGroups(): void {
    const merged: LogGroup[] = []
    for (const group of this.#groups) {
      const same = merged.find((one) => one.isDone && group.isDone && one.read.snapshot === group.read.snapshot)
      if (same === undefined) merged.push(group)
      else same.include(group)
    }
    this.#groups = merged
  }

  /** Writes the cursors of partitions without records now and then, so that no part of the log is kept for them, and rotates the log. */
  async #keep({ member }: LogClaimOptions): Promise<void> {
    const now = this.#runtime.monotonic()
    for (const group of this.#groups) {
      if (now - group.writtenAt < keepInterval) continue
      await this.#writing.run(async () => {
        await this.#resolve(group, member)
        await this.#write(group, member, new Map())
      })
    }
    this.#rotation.rotateIfDue()
  }
}

/** Nothing is known. */
const noFloor: LogFloor = { seq: '0', xid: '0' }

function isAsked(destination: string, { destinations, except }: Pick<LogClaimOptions, 'destinations' | 'except'>): boolean {
  return destinations?.includes(destination) !== false && !except.includes(destination)
}

function moveOf(seq: string, outcome: Outcome): LogMove | undefined {
  return outcome.result === 'published' ? undefined : { seq, outcome, attempts: 1 }
}

/** Everything with a lower seq, or this one, was committed before and read, or is still uncommitted. */
function completeUpTo({ floor, range }: LogPosition): string {
  if (range === undefined) return floor
  return compareSeq(range.seq, range.floor) < 0 ? range.seq : range.floor
}

function laterSeq(one: string | undefined, other: string): string {
  return one === undefined || compareSeq(one, other) < 0 ? other : one
}

function heldRecordOf(row: Row, group: LogGroup, chunk: Chunk, epochs: ReadonlyMap<number, string>): HeldRecord {
  const key = row['ordering_key']
  const partition = Number(row['partition'])
  const location = { destination: String(row['destination']), key: key === null || key === undefined ? undefined : String(key) }
  return {
    row,
    group,
    chunk,
    ...location,
    keyName: keyNameOf(location),
    bytes: sizeOf(row),
    seq: String(row['seq']),
    state: logState,
    partition,
    epoch: epochs.get(partition) ?? '',
    attempts: 0,
    isClaimed: false,
    entry: undefined,
  }
}
