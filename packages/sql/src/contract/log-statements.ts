import type { Outcome } from '@ackord/outbox'
import type { Row } from '../records/row.ts'
import type { MemberStatus, OwnedClaimOptions } from './ownership-statements.ts'

/**
 * A seq that had been taken before the transaction `xid` had its id. Ids are given in ascending order, and a transaction has its id before it takes a seq: transactions with a higher id
 * than `xid` have only seqs above `seq`. Seqs and ids are numbers as strings.
 */
export interface LogFloor {
  readonly seq: string
  readonly xid: string
}

/** How far a log was read. */
export interface LogPosition {
  /** Everything that this snapshot shows. */
  readonly snapshot: string
  /** A transaction with an id from the `xmax` of the snapshot on has no seq up to this one. It may have begun before the snapshot. */
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

/** The part of some partitions that has been published or moved to the outbox table. */
export interface LogCursor {
  /** Everything up to here … */
  readonly position: LogPosition
  /** … except for these seqs … */
  readonly open: readonly string[]
  /** … and these seqs beyond it. */
  readonly done: readonly string[]
  /** The first entry of the claim journal with records that are still in flight; `undefined` if there are none. */
  readonly firstEntry: string | undefined
}

/** The last cursor of some partitions. */
export interface LastCursor {
  readonly partitions: readonly number[]
  /** Grows from cursor to cursor; `0` if there is none. */
  readonly generation: string
  readonly cursor: LogCursor
  /** The seqs that may have been in flight, of these and other partitions. */
  readonly claimed: readonly string[]
}

/**
 * A member, and what it knows of some of its partitions: a change is refused unless they still have these epochs and no later cursor, and the turn has not been refused. So a statement
 * that is delayed, or was sent again because its outcome is unknown, changes nothing any more.
 */
export interface LogFence {
  readonly member: string
  readonly epochs: ReadonlyMap<number, string>
  /** The generation of their last cursor. */
  readonly generation: string
  readonly turn: number
}

/** The lowest turns of a member's statements that the server does not refuse. Raised when the outcome of a statement is unknown: the server may receive it later. */
interface LogTurns {
  readonly reads: number
  /** Of `write` and `takeOver`. */
  readonly writes: number
}

/** A record of the log that continues in the outbox table. */
export interface LogMove {
  readonly seq: string
  /** Its outcome; `undefined` if it was not published yet. */
  readonly outcome: Exclude<Outcome, { readonly result: 'published' }> | undefined
  /** The attempts to count. */
  readonly attempts: number
}

export interface LogReadOptions extends Pick<OwnedClaimOptions, 'limit' | 'maxBytes' | 'spent' | 'except' | 'behindParked'> {
  readonly member: string
  readonly turn: number
  /** The partitions, and their epochs. */
  readonly epochs: ReadonlyMap<number, string>
  readonly position: LogPosition
  /** Seqs beyond the position that are not read. */
  readonly done: readonly string[]
  /** The snapshot to read up to; `undefined`: that of the position's range, or the current one. */
  readonly until: Pick<LogPosition, 'snapshot' | 'floor'> | undefined
  /** From an earlier statement. It becomes the floor of the current snapshot if its transaction ended before that. */
  readonly floor: LogFloor
}

/** An entry of the claim journal. Entries are numbered in the order of their statements, together with the cursors. */
interface RecordedClaim {
  readonly entry: string
  /** The records of the claim that an operator had moved to the outbox table before. */
  readonly taken: readonly string[]
}

export interface LogRead {
  /** `undefined`: the member's lease had expired, or it does not own the partitions, and nothing was read. */
  readonly status: MemberStatus | undefined
  /**
   * Records after the position, by seq, with the columns of a claim. Those that cannot be claimed have been moved to the outbox table: their destination is in `except`, or their key has
   * records there.
   */
  readonly rows: readonly Row[]
  /** How far it has read. */
  readonly position: LogPosition
  /** Whether that is everything up to the snapshot. */
  readonly complete: boolean
  /** Whether the limit of bytes ended it. */
  readonly cut: boolean
  /** The seqs that were moved to the outbox table, and the entry of the claim journal that records them. */
  readonly moved: readonly string[]
  readonly entry: string | undefined
  /** The last seq that had been taken, at or after the time of the snapshot, before the statement had its transaction id. */
  readonly floor: LogFloor
}

/**
 * The statements of the log mode. Each call is atomic. All times are the database's. Those of a member keep it registered until they are committed: otherwise another member could take
 * its partitions over before, and not see the change. They are refused if the server has recovered from a crash, or was promoted, since the member has called `open`.
 */
export interface LogStatements {
  /**
   * Registers the member as a reader, before it learns anything: transactions whose end it has seen may be lost in a crash, and the server gives their ids again. Then checks that the
   * log belongs to this database: after a dump and restore, xids start anew. If it does not, everything that is not published is moved to the outbox table. Resolves to the last seq that
   * was taken, and to whether records were moved.
   */
  open(member: string): Promise<{ readonly floor: LogFloor; readonly restored: boolean }>
  /** The last cursors of these partitions. Partitions without one are read from the beginning. */
  cursors(partitions: readonly number[]): Promise<readonly LastCursor[]>
  /**
   * Takes partitions over that have this cursor: moves the records that their former owner had in flight to the outbox table, with an attempt counted, and what else is open.
   * Writes a cursor with the same position, for which all of them are done. Resolves to its generation; `undefined`: it was refused.
   */
  takeOver(fence: LogFence, last: LastCursor): Promise<string | undefined>
  /**
   * Records in the claim journal that the member claims these records. Resolves to the entry, and to the records that an operator has moved to the outbox table since they were read.
   * `undefined`: the member's lease had expired.
   */
  recordClaim(member: string, seqs: readonly string[]): Promise<RecordedClaim | undefined>
  /** Reads records. */
  read(options: LogReadOptions): Promise<LogRead>
  /** Waits for the member's statements with earlier turns that are under way, and refuses those that come later. */
  refuseLate(member: string, turns: LogTurns): Promise<void>
  /** The records that the member's reads have moved to the outbox table after this entry, and the last entry that records them. Reads with unknown outcomes must have been refused. */
  movedSince(member: string, entry: string): Promise<{ readonly entry: string; readonly moved: readonly string[] }>
  /** The columns `seq`, `data` and `attributes` of records. */
  contents(seqs: readonly string[]): Promise<readonly Row[]>
  /** Writes a cursor, and moves records to the outbox table. Resolves to the generation of the cursor; `undefined`: it was refused. A member that no other member has removed yet may do that after its lease. */
  write(fence: LogFence, cursor: LogCursor, moves: readonly LogMove[]): Promise<string | undefined>
  /** The generation of the last cursor of a partition. Writes with unknown outcomes must have been refused. */
  lastGeneration(partition: number): Promise<string>
  /** Empties parts of the log that no relay needs any more, and switches to an empty one if it is time. Skips what it would have to wait for. */
  rotate(): Promise<void>
}
