import type { Outcome } from '@ackord/outbox'
import type { Row } from '../records/row.ts'
import type { MemberStatus, OwnedClaimOptions } from './store-dialect.ts'

/** How far a log was read. Seqs are numbers as strings. */
export interface LogPosition {
  /** Everything that this snapshot shows. */
  readonly snapshot: string
  /** A transaction that began after the snapshot has no seq up to this one. */
  readonly floor: string
  /** Also, of what a later snapshot shows, the records up to a seq. */
  readonly range?: LogRange | undefined
}

export interface LogRange {
  readonly until: string
  /** The same for `until`. */
  readonly floor: string
  readonly seq: string
}

/** What has been published of some partitions, or moved to the outbox table. */
export interface LogCursor {
  /** Everything up to here … */
  readonly position: LogPosition
  /** … except for these seqs … */
  readonly open: readonly string[]
  /** … and these seqs beyond it. */
  readonly done: readonly string[]
  /** Where it was first written down that records were given that are still in flight; `undefined` if there are none. */
  readonly noted: string | undefined
}

/** The last cursor of some partitions. */
export interface LastCursor {
  readonly partitions: readonly number[]
  readonly cursor: LogCursor
  /** The seqs that may have been in flight, of these and other partitions. */
  readonly given: readonly string[]
}

/** A live member and the epochs of some of its partitions, which fence a change. */
export interface LogFence {
  readonly member: string
  readonly epochs: ReadonlyMap<number, string>
}

/** A record of the log that continues in the outbox table. */
export interface LogMove {
  readonly seq: string
  /** What happened to it; `undefined` if it was not published yet. */
  readonly outcome: Exclude<Outcome, { readonly result: 'published' }> | undefined
  /** The attempts to count. */
  readonly attempts: number
}

export interface LogReadOptions
  extends Pick<OwnedClaimOptions, 'limit' | 'maxBytes' | 'spent' | 'destinations' | 'except' | 'behindParked'> {
  readonly member: string
  readonly partitions: readonly number[]
  readonly position: LogPosition
  /** Seqs beyond the position that are not read. */
  readonly done: readonly string[]
  /** The snapshot to read up to; `undefined`: the current one. */
  readonly until: string | undefined
  /** The floor of that snapshot. */
  readonly floor: string
}

export interface LogRead {
  /** `undefined`: the member's lease had expired, and nothing was read. */
  readonly status: MemberStatus | undefined
  /**
   * Records after the position, by seq, with the columns of a claim. Those that cannot be given now have been moved to the outbox table: their destination was not asked for, or
   * their key has records there.
   */
  readonly rows: readonly Row[]
  /** How far it has read. */
  readonly position: LogPosition
  /** Whether that is everything up to the snapshot. */
  readonly complete: boolean
  /** Whether the limit of bytes ended it. */
  readonly cut: boolean
  /** The seqs that were moved to the outbox table, and where that was written down. */
  readonly moved: readonly string[]
  readonly noted: string | undefined
  /** The last seq that was taken, at or after the time of the snapshot. */
  readonly lastSeq: string
}

/** The statements of the log mode. Each call is atomic. All times are the database's. */
export interface LogStatements {
  /**
   * Checks that the log belongs to this database: after a dump and restore, xids start anew. Then everything that is not published is moved to the outbox table. Resolves to the
   * last seq that was taken, and to whether records were moved.
   */
  open(): Promise<{ readonly lastSeq: string; readonly restored: boolean }>
  /** The last cursors of these partitions. Partitions without one are read from the beginning. */
  cursors(partitions: readonly number[]): Promise<readonly LastCursor[]>
  /**
   * Takes partitions over that have this cursor: moves the records that their former owner had in flight to the outbox table, with an attempt counted, and what else is open.
   * Writes a cursor with the same position, for which all of them are done. Resolves to whether the member owns the partitions.
   */
  takeOver(fence: LogFence, last: LastCursor): Promise<boolean>
  /** Writes down that these records are given to the relay. Resolves to where, and to those that an operator has moved to the outbox table since they were read. */
  note(member: string, seqs: readonly string[]): Promise<{ readonly noted: string; readonly taken: readonly string[] }>
  /** Reads records. */
  read(options: LogReadOptions): Promise<LogRead>
  /** The columns `seq`, `data` and `attributes` of records. */
  contents(seqs: readonly string[]): Promise<readonly Row[]>
  /** Writes a cursor, and moves records to the outbox table. Resolves to whether the member is alive and owns all of the partitions. */
  write(fence: LogFence, cursor: LogCursor, moves: readonly LogMove[]): Promise<boolean>
  /** Empties parts of the log that no relay needs any more, and switches to an empty one if it is time. Skips what it would have to wait for. */
  rotate(): Promise<void>
}
