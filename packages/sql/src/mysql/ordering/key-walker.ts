import type { RunStatement } from '../../contract/driver.ts'
import type { KeyLocation, OwnedClaimOptions, ReadPosition } from '../../contract/ownership-statements.ts'
import type { FoundRow, KeyHead, KeyWalk, RunAsk } from '../../ordering/owned-claim.ts'
import { bySeq, compareSeq } from '../../records/claimed-record.ts'
import type { Row } from '../../records/row.ts'
import { joinParts, readRow, type SqlPart } from '../sql-text.ts'
import { firstKeysSql, type KeySeek, nextKeySql, nextRowsSql, type PendingState } from './owned-claim.ts'

/** The state of the walk through a destination. */
interface Progress {
  /** The last visited key of each partition. */
  readonly cursors: Map<number, string>
  /** The keys that the last walk visited, in order. The next walk knows how many of them were used. */
  looked: readonly KeyLocation[]
}

/** A partition during one round. */
interface Lap {
  readonly partition: number
  /** Where the round began, and ends. */
  readonly start: string | undefined
  after: string | undefined
  wrapped: boolean
}

/**
 * Walks through the keys of a destination in many partitions at once: one key of each in turn, because a statement can seek in all of them but not
 * step from key to key. So there is a cursor per partition, in memory.
 */
export class KeyWalker {
  readonly #progress = new Map<string, Progress>()

  async walk(rows: KeyRows, position: ReadPosition, max: number, { partitions, jumps, inFlight }: OwnedClaimOptions): Promise<KeyWalk> {
    const progress = this.#goOn(position)
    const heldKeys = new Set(inFlight.filter(({ destination }) => destination === position.destination).map(({ key }) => key))
    const looked: KeyLocation[] = []
    const heads: KeyHead[] = []
    let laps: readonly Lap[] = lapsOf(partitions, progress.cursors, position.key?.partition ?? -1)
    while (laps.length > 0 && heads.length < max && looked.length < jumps) {
      // No more than can be used: each partition may have a key.
      const asked = laps.slice(0, Math.min(max - heads.length, jumps - looked.length))
      const found = await rows.next(asked)
      for (const [index, lap] of asked.entries()) {
        const row = found[index]
        if (row === undefined || isRound(lap, row.key)) continue
        looked.push({ partition: row.partition, key: row.key })
        if (!heldKeys.has(row.key) && rows.gives(row)) heads.push(row)
      }
      laps = [...laps.slice(asked.length), ...asked.flatMap((lap, index) => nextLap(lap, found[index]?.key))]
    }
    progress.looked = looked
    return { heads, last: looked.at(-1), more: laps.length > 0 }
  }

  /** Advances the cursors past the keys of the last walk that were used. */
  #goOn({ destination, key }: ReadPosition): Progress {
    const progress = this.#progress.get(destination) ?? { cursors: new Map<number, string>(), looked: [] }
    this.#progress.set(destination, progress)
    const used = progress.looked.findLastIndex((one) => one.partition === key?.partition && one.key === key.key)
    for (const one of progress.looked.slice(0, used + 1)) progress.cursors.set(one.partition, one.key)
    progress.looked = []
    return progress
  }
}

/** Starts after this partition. */
function lapsOf(partitions: readonly number[], cursors: ReadonlyMap<number, string>, behind: number): readonly Lap[] {
  const sorted = [...partitions].sort((one, other) => one - other)
  const first = sorted.findIndex((partition) => partition > behind)
  const ordered = first === -1 ? sorted : [...sorted.slice(first), ...sorted.slice(0, first)]
  return ordered.map((partition) => {
    const start = cursors.get(partition)
    return { partition, start, after: start, wrapped: start === undefined }
  })
}

function isRound({ start, wrapped }: Lap, key: string): boolean {
  return wrapped && start !== undefined && isBehind(key, start)
}

/** The continuation after the key that was found; empty if the round is complete. */
function nextLap(lap: Lap, key: string | undefined): readonly Lap[] {
  if (key === undefined) return lap.wrapped ? [] : [{ ...lap, after: undefined, wrapped: true }]
  return isRound(lap, key) ? [] : [{ ...lap, after: key }]
}

/** The first row of a key. */
export interface KeyRow extends KeyHead {
  /** Whether it is due. */
  readonly due: boolean
}

/** The number of rows with a key read at once; if a state has no more than that, it is not queried again. */
const batchSize = 300

/** The number of seeks per statement: each costs as much as a small statement, without its round trip. */
const seekBatchSize = 64

const states: readonly PendingState[] = ['ready', 'waiting']

/**
 * The rows with a key of one destination, as a claim reads them. If there are few, the first statement returns all of them; otherwise the next keys
 * of many partitions are read with one statement, one index entry for each.
 */
export class KeyRows {
  readonly #run: RunStatement
  readonly #table: string
  readonly #destination: string
  readonly #options: OwnedClaimOptions
  /** All rows of a state, by key and seq, if there are few. */
  readonly #known = new Map<PendingState, readonly KeyRow[]>()

  private constructor(run: RunStatement, table: string, destination: string, options: OwnedClaimOptions) {
    this.#run = run
    this.#table = table
    this.#destination = destination
    this.#options = options
  }

  static async open(run: RunStatement, table: string, destination: string, options: OwnedClaimOptions): Promise<KeyRows> {
    const opened = new KeyRows(run, table, destination, options)
    const selects = states.map((state) => firstKeysSql(table, state, destination, options, batchSize))
    const rows = (await runUnion(run, selects)).map((row) => opened.#keyRowOf(row))
    for (const state of states) {
      const found = rows.filter((row) => row.state === state)
      if (found.length < batchSize) opened.#known.set(state, found)
    }
    return opened
  }

  /** The first row of the next key of each partition, in order; `undefined` where there is none. */
  async next(seeks: readonly KeySeek[]): Promise<readonly (KeyRow | undefined)[]> {
    const sought = await this.#seek(seeks)
    return seeks.map((seek) => {
      const known = [...this.#known.values()].flatMap((rows) => {
        const inPartition = rows.filter(({ partition, key }) => partition === seek.partition && isBehind(key, seek.after))
        return inPartition.length === 0 ? [] : [inPartition.reduce(earlier)]
      })
      const found = [...known, ...sought.filter(({ partition }) => partition === seek.partition)]
      return found.length === 0 ? undefined : found.reduce(earlier)
    })
  }

  /** The rows after a row of each key, up to the first that may not be claimed yet. */
  async follow(asks: readonly RunAsk[]): Promise<readonly (readonly FoundRow[])[]> {
    const unknown = states.filter((state) => !this.#known.has(state))
    const selects = asks.flatMap((ask, number) => unknown.map((state) => nextRowsSql(this.#table, state, ask, number)))
    const sought = (await runUnion(this.#run, selects)).map((row) => ({ ...foundOf(row), number: Number(row['number']) }))
    return asks.map(({ head, after, max }, number) => {
      const known = [...this.#known.values()].flatMap((rows) =>
        rows.filter(({ partition, key, seq }) => partition === head.partition && key === head.key && compareSeq(seq, after) > 0),
      )
      const rows = [...known, ...sought.filter((row) => row.number === number)].sort(bySeq).slice(0, max)
      const end = rows.findIndex(({ due, seq }) => !due || this.#isKept(seq, head.parked))
      return end === -1 ? rows : rows.slice(0, end)
    })
  }

  /** Whether a row must wait behind a parked one. */
  #isKept(seq: string, parked: string | undefined): boolean {
    return this.#options.behindParked === 'kept' && parked !== undefined && compareSeq(seq, parked) > 0
  }

  gives({ due, seq, parked }: KeyRow): boolean {
    return due && !this.#isKept(seq, parked)
  }

  async #seek(seeks: readonly KeySeek[]): Promise<readonly KeyRow[]> {
    const unknown = states.filter((state) => !this.#known.has(state))
    const selects = seeks.flatMap((seek) => unknown.map((state) => nextKeySql(this.#table, state, this.#destination, this.#options, seek)))
    return (await runUnion(this.#run, selects)).map((row) => this.#keyRowOf(row))
  }

  #keyRowOf(row: Row): KeyRow {
    const parked = row['parked']
    return {
      ...foundOf(row),
      destination: this.#destination,
      partition: Number(row['partition']),
      key: String(row['ordering_key']),
      parked: parked === null ? undefined : String(parked),
    }
  }
}

function foundOf(row: Row): FoundRow & { readonly due: boolean } {
  return { seq: String(row['seq']), state: String(row['state']), attempts: Number(row['attempts']), due: Number(row['due']) === 1 }
}

/** Compares like the database. */
function isBehind(key: string, after: string | undefined): boolean {
  return after === undefined || Buffer.compare(Buffer.from(key), Buffer.from(after)) > 0
}

function earlier(one: KeyRow, other: KeyRow): KeyRow {
  if (one.key === other.key) return bySeq(one, other) <= 0 ? one : other
  return isBehind(one.key, other.key) ? other : one
}

/** The rows of all SELECTs, one batch per statement. */
export async function runUnion(run: RunStatement, selects: readonly SqlPart[]): Promise<readonly Row[]> {
  const found: Row[] = []
  for (let start = 0; start < selects.length; start += seekBatchSize) {
    const { sql, parameters } = joinParts(selects.slice(start, start + seekBatchSize), ')\nUNION ALL\n(')
    const { rows } = await run(`(${sql})`, parameters)
    found.push(...rows.map(readRow))
  }
  return found
}
