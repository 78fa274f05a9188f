import { compareSeq } from '../compare-seq.ts'
import type { Row, RunStatement } from '../driver.ts'
import type { FoundRow, KeyHead, RunAsk } from '../owned-claim.ts'
import type { OwnedClaimOptions } from '../ownership-statements.ts'
import { readRow } from './outbox-rows.ts'
import { firstKeysSql, type KeySeek, nextKeySql, nextRowsSql, type PendingState } from './owned-claim-statements.ts'
import { joinParts, type SqlPart } from './sql-part.ts'

/** The first row of a key that was found. */
export interface KeyRow extends KeyHead {
  /** Whether its time has come. */
  readonly due: boolean
}

/** So many rows with a key are read at once, and if that is all there are of a state, nothing more is asked of it. */
const atOnce = 300

/** How many seeks one statement makes: each costs as much as a small statement, without its round trip. */
const seeksAtOnce = 64

const states: readonly PendingState[] = ['ready', 'waiting']

/**
 * The rows with a key of one destination, as a claim reads them. Where there are few, the first statement has them all; elsewhere the next keys of many
 * partitions are sought by one statement, an index entry for each.
 */
export class KeyRows {
  readonly #run: RunStatement
  readonly #table: string
  readonly #destination: string
  readonly #options: OwnedClaimOptions
  /** All rows of a state, by key and seq, where they are few. */
  readonly #known = new Map<PendingState, readonly KeyRow[]>()

  private constructor(run: RunStatement, table: string, destination: string, options: OwnedClaimOptions) {
    this.#run = run
    this.#table = table
    this.#destination = destination
    this.#options = options
  }

  static async open(run: RunStatement, table: string, destination: string, options: OwnedClaimOptions): Promise<KeyRows> {
    const opened = new KeyRows(run, table, destination, options)
    const selects = states.map((state) => firstKeysSql(table, state, destination, options, atOnce))
    const rows = (await runUnion(run, selects)).map((row) => opened.#keyRowOf(row))
    for (const state of states) {
      const found = rows.filter((row) => row.state === state)
      if (found.length < atOnce) opened.#known.set(state, found)
    }
    return opened
  }

  /** The first row of the next key of each, in their order; `undefined` where there is none. */
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

  /** What comes after a row of each, up to the first that may not be given yet. */
  async follow(asks: readonly RunAsk[]): Promise<readonly (readonly FoundRow[])[]> {
    const unknown = states.filter((state) => !this.#known.has(state))
    const selects = asks.flatMap((ask, number) => unknown.map((state) => nextRowsSql(this.#table, state, ask, number)))
    const sought = (await runUnion(this.#run, selects)).map((row) => ({ ...foundOf(row), number: Number(row['number']) }))
    return asks.map(({ head, after, most }, number) => {
      const known = [...this.#known.values()].flatMap((rows) =>
        rows.filter(({ partition, key, seq }) => partition === head.partition && key === head.key && compareSeq(seq, after) > 0),
      )
      const rows = [...known, ...sought.filter((row) => row.number === number)].sort(bySeq).slice(0, most)
      const end = rows.findIndex(({ due, seq }) => !due || this.#isKept(seq, head.parked))
      return end === -1 ? rows : rows.slice(0, end)
    })
  }

  /** Whether a row has to stay behind a parked one. */
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

/** As the database compares them. */
export function isBehind(key: string, after: string | undefined): boolean {
  return after === undefined || Buffer.compare(Buffer.from(key), Buffer.from(after)) > 0
}

function earlier(one: KeyRow, other: KeyRow): KeyRow {
  if (one.key === other.key) return bySeq(one, other) <= 0 ? one : other
  return isBehind(one.key, other.key) ? other : one
}

function bySeq(one: FoundRow, other: FoundRow): number {
  return compareSeq(one.seq, other.seq)
}

/** The rows of all of them, a portion of them by each statement. */
export async function runUnion(run: RunStatement, selects: readonly SqlPart[]): Promise<readonly Row[]> {
  const found: Row[] = []
  for (let start = 0; start < selects.length; start += seeksAtOnce) {
    const { sql, parameters } = joinParts(selects.slice(start, start + seeksAtOnce), ')\nUNION ALL\n(')
    const { rows } = await run(`(${sql})`, parameters)
    found.push(...rows.map(readRow))
  }
  return found
}
