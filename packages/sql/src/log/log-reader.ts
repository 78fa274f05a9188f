import type { Logger, Runtime } from '@ackord/core'
import type { Outcome } from '@ackord/outbox'
import type { LogFence, LogMove, LogPosition, LogRead, LogReadOptions, LogStatements } from '../contract/log-statements.ts'
import { StatementQueue } from '../contract/statement-queue.ts'
import type { InFlightRow, MemberStatus, OwnedOutcome } from '../contract/store-dialect.ts'
import { compareSeq } from '../records/claimed-record.ts'
import type { Row } from '../records/row.ts'
import { Chunk, chooseInTurns, type HeldRecord, HeldRecords, keyNameOf, LogGroup, sizeOf } from './held-records.ts'

export interface LogClaimOptions
  extends Pick<LogReadOptions, 'member' | 'limit' | 'maxBytes' | 'spent' | 'destinations' | 'except' | 'behindParked'> {
  /** The partitions that the member owns now. */
  readonly epochs: () => ReadonlyMap<number, string>
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

/** The number of records of a key that wait in memory. More are moved to the outbox table, so that a slow key does not hold up the others. */
const maxOfKey = 1000

/** Milliseconds between two cursors of partitions without records, and between two looks at the parts of the log. */
const keepInterval = 10_000

/** The state of a record of the log. */
export const logState = 'log'

interface Settling {
  readonly outcomes: readonly OwnedOutcome[]
  readonly resolve: (applied: ReadonlySet<string>) => void
  readonly reject: (error: unknown) => void
}

/**
 * Reads the log of the partitions that a member owns. Records that were read are kept in memory until they are published or moved to the outbox table; then the cursor is written.
 * Everything that cannot be published now goes to the outbox table: failures, what is behind them, and what another relay takes over.
 */
export class LogReader {
  readonly #statements: LogStatements
  readonly #runtime: Runtime
  readonly #logger: Logger
  readonly #held = new HeldRecords()
  readonly #writing = new StatementQueue()
  #groups: LogGroup[] = []
  #epochs = new Map<number, string>()
  /** A seq that had been taken before the last statement began; `undefined` until the log was opened. */
  #lastSeq: string | undefined
  /** Keys with records in the outbox table, of which there were records here when they were moved. */
  readonly #movedKeys = new Set<string>()
  #behindParked: LogClaimOptions['behindParked'] = 'given'
  #settling: Settling[] = []
  #lastNoted = '0'
  /** Ends when what is being read now is known here. */
  #reading: Promise<void> | undefined
  #rotatedAt = 0
  #rotating: Promise<void> | undefined

  constructor(statements: LogStatements, { runtime, logger }: { readonly runtime: Runtime; readonly logger: Logger }) {
    this.#statements = statements
    this.#runtime = runtime
    this.#logger = logger
  }

  /** Records that no relay has: others of their keys must not be claimed from the outbox table. */
  get waiting(): readonly InFlightRow[] {
    return [...this.#held.idle].filter(({ key }) => key !== undefined)
  }

  /** Records of a key with a higher seq may have predecessors in the log that were not read yet. */
  get readUpTo(): string {
    return this.#groups
      .map(({ read }) => completeUpTo(read))
      .reduce((one, other) => (compareSeq(one, other) < 0 ? one : other), this.#lastSeq ?? '0')
  }

  /** Whether records have been stored since `readUpTo`. */
  get #isBehind(): boolean {
    return compareSeq(this.readUpTo, this.#lastSeq ?? '0') < 0
  }

  async claim(options: LogClaimOptions): Promise<LogClaim> {
    if (this.#lastSeq === undefined) await this.#open()
    await this.#adopt(options)
    const strays = await this.#moveStrays(options)
    let read = await this.#readAhead(options)
    if (read.status === 'lost') return { ...read, rows: [], cut: false }
    // The outbox table may have records whose predecessors in the log were not read.
    if ((read.moved || options.anyKeys) && this.#isBehind) {
      const again = await this.#readAhead(options)
      if (again.status === 'lost') return { ...again, rows: [], cut: false }
      read = { status: again.status ?? read.status, moved: read.moved || again.moved }
    }
    const { records: chosen, cut } = this.#choose(options)
    const records = await this.#note(chosen, options)
    const crowded = await this.#move(this.#held.crowded(maxOfKey), options)
    await this.#keep(options)
    return { status: read.status, rows: records.map(({ row }) => row), cut, moved: read.moved || strays || crowded }
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
  release(seq: string): void {
    const record = this.#held.all.get(seq)
    if (record !== undefined) this.#held.takeBack(record)
  }

  /** Before partitions are handed over: nothing of them is in flight. */
  async handOver(member: string, partitions: readonly number[]): Promise<void> {
    // It may move records of these partitions to the outbox table.
    await this.#reading
    await this.#writing.run(async () => {
      for (const group of this.#groups)
        await this.#end(
          group,
          member,
          partitions.filter((one) => group.partitions.has(one)),
          0,
        )
    })
    for (const partition of partitions) this.#forget(partition)
  }

  /** Before the member leaves. What is in flight counts as an attempt. */
  async leave(member: string): Promise<void> {
    await this.#reading
    await this.#rotating
    await this.#writing.run(async () => {
      for (const group of this.#groups) await this.#end(group, member, [...group.partitions], 1)
    })
    this.clear()
    // A relay that runs for a few seconds at a time would never rotate the log otherwise.
    if (this.#lastSeq !== undefined) await this.#rotate()
  }

  /** The member owns nothing any more. */
  clear(): void {
    this.#groups = []
    this.#epochs = new Map()
    this.#held.clear()
    this.#movedKeys.clear()
  }

  async #open(): Promise<void> {
    const { lastSeq, restored } = await this.#statements.open()
    this.#lastSeq = lastSeq
    this.#rotatedAt = this.#runtime.monotonic()
    if (restored)
      this.#logger.warn({}, 'The log of the outbox was restored from a dump. Its unpublished records were moved to the outbox table.')
  }

  async #readGroup(group: LogGroup, options: LogClaimOptions, target: LogPosition | undefined): Promise<LogRead> {
    const { read: position } = group
    const { range } = position
    const answer = await this.#statements.read({
      ...options,
      partitions: [...group.partitions],
      position,
      done: group.doneBefore,
      until: range?.until ?? target?.snapshot,
      floor: range?.floor ?? target?.floor ?? this.#lastSeq ?? '0',
    })
    if (answer.status === undefined) return answer
    this.#lastSeq = laterSeq(this.#lastSeq, answer.lastSeq)
    this.#lastNoted = laterSeq(this.#lastNoted, answer.noted ?? '0')
    this.#hold(group, answer.rows, new Chunk(position, answer.position, answer.moved))
    return answer
  }

  async #watch<T>(reading: Promise<T>): Promise<T> {
    this.#reading = reading.then(
      () => {},
      () => {},
    )
    try {
      return await reading
    } finally {
      this.#reading = undefined
    }
  }

  /** Forgets partitions that are not owned any more, and takes over new ones. */
  async #adopt({ member, epochs }: LogClaimOptions): Promise<void> {
    const owned = new Map(epochs())
    for (const [partition, epoch] of this.#epochs) if (owned.get(partition) !== epoch) this.#forget(partition)
    const added = [...owned].filter(([partition]) => !this.#epochs.has(partition))
    if (added.length === 0) return
    for (const last of await this.#statements.cursors(added.map(([partition]) => partition))) {
      const fenced = new Map(added.filter(([partition]) => last.partitions.includes(partition)))
      // Refused if a partition was handed over meanwhile.
      if (!(await this.#statements.takeOver({ member, epochs: fenced }, last))) continue
      const { position, done } = last.cursor
      this.#groups.push(new LogGroup(last.partitions, position, [...done, ...last.given], this.#runtime.monotonic()))
      for (const [partition, epoch] of fenced) this.#epochs.set(partition, epoch)
    }
  }

  /** Reads until all groups are read up to the same snapshot, or until there are enough records in memory. */
  async #readAhead(options: LogClaimOptions): Promise<Pick<LogClaim, 'status' | 'moved'>> {
    const { maxBytes = Infinity } = options
    const most = Math.max(window, options.limit)
    let status: LogClaim['status']
    let moved = false
    let target: LogPosition | undefined
    const complete = new Set<LogGroup>()
    for (let round = 0; round < maxRounds; round += 1) {
      const group = this.#groups.find((one) => !complete.has(one))
      const spent = options.spent + (maxBytes === Infinity ? 0 : this.#held.idleBytes)
      if (group === undefined || this.#held.idle.size > most / 2 || spent >= maxBytes) break
      const until = group.read.range?.until ?? target?.snapshot
      const answer = await this.#watch(this.#readGroup(group, { ...options, limit: most - this.#held.idle.size, spent }, target))
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

  #forget(partition: number): void {
    this.#epochs.delete(partition)
    for (const record of [...this.#held.all.values()]) {
      if (record.partition !== partition) continue
      this.#held.remove(record)
      record.group.finish(record)
    }
    for (const group of this.#groups) group.partitions.delete(partition)
    this.#groups = this.#groups.filter(({ partitions }) => partitions.size > 0)
  }

  #hold(group: LogGroup, rows: readonly Row[], chunk: Chunk): void {
    // The member has lost its partitions meanwhile.
    if (!this.#groups.includes(group)) return
    // Partitions that were handed over meanwhile are read by their new owner.
    const records = rows
      .map((row) => heldRecordOf(row, group, chunk, this.#epochs))
      .filter(({ partition }) => group.partitions.has(partition))
    chunk.hold(records.map(({ seq }) => seq))
    group.add(chunk)
    for (const record of records) this.#held.add(record)
  }

  /** Chooses records that are in memory, evenly: of each destination as many, of each key as many, and of a key the first ones. */
  #choose({ limit, maxBytes = Infinity, spent, destinations, except, mayClaimFrom }: LogClaimOptions): {
    readonly records: readonly HeldRecord[]
    readonly cut: boolean
  } {
    const isAsked = ({ destination, partition, epoch }: HeldRecord) =>
      destinations?.includes(destination) !== false && !except.includes(destination) && mayClaimFrom(partition, epoch)
    const records = chooseInTurns(this.#held, { limit, isAsked, isFree: (key) => !this.#movedKeys.has(key) })
    if (maxBytes === Infinity) return { records, cut: false }
    let bytes = spent
    const end = records.findIndex((record) => {
      const isFirst = bytes === 0
      bytes += record.bytes
      return bytes > maxBytes && !isFirst
    })
    return end === -1 ? { records, cut: bytes >= maxBytes } : { records: records.slice(0, end), cut: true }
  }

  /** Writes down that the relay gets these records: if it disappears, that counts as an attempt. Resolves to those that it may have. */
  async #note(records: readonly HeldRecord[], { member }: LogClaimOptions): Promise<readonly HeldRecord[]> {
    if (records.length === 0) return []
    // A cursor that is written meanwhile must not hide the note.
    for (const record of records) this.#held.give(record, this.#lastNoted)
    try {
      const { noted, taken } = await this.#statements.note(
        member,
        records.map(({ seq }) => seq),
      )
      for (const record of records) this.#held.note(record, noted)
      this.#lastNoted = laterSeq(this.#lastNoted, noted)
      return taken.length === 0 ? records : await this.#withhold(new Set(taken), records, member)
    } catch (error) {
      for (const record of records) if (record.isGiven && this.#held.all.has(record.seq)) this.#held.takeBack(record)
      throw error
    }
  }

  /** An operator has moved some of these records to the outbox table. What follows them in their keys must go there, too. Resolves to the others. */
  async #withhold(taken: ReadonlySet<string>, records: readonly HeldRecord[], member: string): Promise<readonly HeldRecord[]> {
    const others: HeldRecord[] = []
    for (const { seq, keyName } of records) if (taken.has(seq) && keyName !== undefined) this.#movedKeys.add(keyName)
    for (const record of records) {
      if (taken.has(record.seq)) continue
      if (record.keyName !== undefined && this.#movedKeys.has(record.keyName)) this.#held.takeBack(record)
      else others.push(record)
    }
    await this.#writing.run(() => this.#finish(member, new Map([...taken].map((seq) => [seq, undefined]))))
    return others
  }

  /** Moves records to the outbox table that must not be given from here: behind records that are there, or of destinations that are not asked for. */
  async #moveStrays(options: LogClaimOptions): Promise<boolean> {
    const { destinations, except, behindParked } = options
    const changed = behindParked !== this.#behindParked
    this.#behindParked = behindParked
    if (!changed && except.length === 0 && destinations === undefined && this.#movedKeys.size === 0) return false
    const strays = [...this.#held.idle].filter(({ destination, keyName }) => {
      if (except.includes(destination) || destinations?.includes(destination) === false) return true
      return keyName !== undefined && (changed || this.#movedKeys.has(keyName))
    })
    const moved = await this.#move(strays, options)
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
      if (outcome.result === 'published' || record.keyName === undefined) continue
      // What is behind it in its key, and not given, follows it.
      for (const { seq, isGiven } of this.#held.ofKey(record.keyName)) {
        if (!isGiven && !finished.has(seq)) finished.set(seq, { seq, outcome: undefined, attempts: 0 })
      }
    }
    return await this.#finish(member, finished)
  }

  /** Writes the cursors after these records are done: published, or moved. Resolves to those that were applied. */
  async #finish(member: string, finished: ReadonlyMap<string, LogMove | undefined>): Promise<ReadonlySet<string>> {
    const applied = new Set<string>()
    const seqs = new Set(finished.keys())
    for (const group of [...this.#groups]) {
      const records = [...seqs].map((seq) => this.#held.all.get(seq)).filter((record) => record?.group === group) as HeldRecord[]
      if (records.length === 0) continue
      const moves = records.map(({ seq }) => finished.get(seq)).filter((move) => move !== undefined)
      if (!(await this.#write(group, member, moves, seqs))) {
        for (const record of records) if (record.isGiven) this.#held.takeBack(record)
        continue
      }
      for (const record of records) {
        applied.add(record.seq)
        this.#held.remove(record)
        group.finish(record)
        if (record.keyName !== undefined && finished.get(record.seq) !== undefined) this.#movedKeys.add(record.keyName)
      }
    }
    return applied
  }

  async #write(group: LogGroup, member: string, moves: readonly LogMove[], finished: ReadonlySet<string>): Promise<boolean> {
    // A read may be writing down what it moves.
    const cursor = group.cursor(this.#held, finished, this.#reading === undefined ? undefined : this.#lastNoted)
    const startedAt = this.#runtime.monotonic()
    const written = await this.#statements.write(this.#fenceOf(member, group.partitions), cursor, moves)
    if (written) group.writtenAt = startedAt
    return written
  }

  #fenceOf(member: string, partitions: Iterable<number>): LogFence {
    return { member, epochs: new Map([...partitions].map((partition) => [partition, this.#epochs.get(partition) ?? '-1'])) }
  }

  /** Moves everything that is held of these partitions, so that the next owner can continue where this one has read. */
  async #end(group: LogGroup, member: string, partitions: readonly number[], attempts: number): Promise<void> {
    if (partitions.length === 0) return
    const chosen = new Set(partitions)
    const records = [...this.#held.all.values()].filter(({ partition }) => chosen.has(partition))
    const moves = records.map(({ seq, isGiven }) => ({ seq, outcome: undefined, attempts: isGiven ? attempts : 0 }))
    await this.#statements.write(this.#fenceOf(member, partitions), group.end, moves)
  }

  /** Groups that have been read equally far, and have nothing open, become one. */
  #mergeGroups(): void {
    const merged: LogGroup[] = []
    for (const group of this.#groups) {
      const same = merged.find((one) => one.isDone && group.isDone && one.read.snapshot === group.read.snapshot)
      if (same === undefined) merged.push(group)
      else for (const partition of group.partitions) same.partitions.add(partition)
    }
    this.#groups = merged
  }

  /** Writes the cursors of partitions without records now and then, so that no part of the log is kept for them, and rotates the log. */
  async #keep({ member }: LogClaimOptions): Promise<void> {
    const now = this.#runtime.monotonic()
    for (const group of this.#groups) {
      if (now - group.writtenAt >= keepInterval) await this.#writing.run(() => this.#write(group, member, [], new Set()))
    }
    if (now - this.#rotatedAt < keepInterval || this.#rotating !== undefined) return
    this.#rotatedAt = now
    this.#rotating = this.#rotate().finally(() => {
      this.#rotating = undefined
    })
  }

  async #rotate(): Promise<void> {
    await this.#statements
      .rotate()
      .catch((error: unknown) =>
        this.#logger.warn({ err: error }, 'The log of the outbox could not be rotated. It grows until that succeeds.'),
      )
  }
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
    isGiven: false,
    noted: undefined,
  }
}
