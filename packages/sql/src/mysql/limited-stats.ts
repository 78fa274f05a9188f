import type { RunStatement } from '../contract/driver.ts'
import type { CountedRows } from '../contract/store-dialect.ts'
import type { Row } from '../records/row.ts'
import { batchSize, destinationsSql, readEach, type StateAndDestination } from './destinations.ts'
import { joinParts, readRow, type SqlPart } from './sql-text.ts'

/** A statement that counts the rows of one state and destination: destination, shown_state, count, age, reached. */
export type CountPair = (pair: StateAndDestination) => SqlPart

/**
 * Counts the rows of each state and destination, with one statement as long as it knows which there are. Not every server has lateral joins, so a statement has to name the
 * states and destinations that it counts. Those of the last call are counted together with a search for others, which are counted by statements of their own.
 */
export class LimitedStats {
  readonly #table: string
  readonly #states: readonly string[]
  /** At most a batch. Only a hint: what has no rows any more is counted as none. */
  #known: ReadonlyMap<string, StateAndDestination> = new Map()

  constructor(table: string, states: readonly string[]) {
    this.#table = table
    this.#states = states
  }

  async read(run: RunStatement, count: CountPair): Promise<CountedRows> {
    const known = this.#known
    const { sql, parameters } = joinParts([this.#searchSql(), ...Array.from(known.values(), count)], '\nUNION ALL\n')
    const answer = (await run(sql, parameters)).rows.map(readRow)
    const found = new Map(answer.filter(({ count }) => count === null).map(pairOf))
    const unknown = [...found].filter(([name]) => !known.has(name)).map(([, pair]) => pair)
    // A stored state has two shown states besides its own at most.
    const others = await readEach(run, unknown, unknown.length * 3, count)
    const all = new Map([...found, ...known])
    this.#known = all.size <= batchSize ? all : new Map([...found].slice(0, batchSize))
    const rows = [...answer.filter(({ count }) => count !== null), ...others]
    return { rows, requests: 1 + Math.ceil(unknown.length / batchSize) }
  }

  /** The states and destinations that have rows, in the form of the counted rows, without a count. */
  #searchSql(): SqlPart {
    const sql = `SELECT found.destination, found.state AS shown_state, NULL AS \`count\`, NULL AS age, NULL AS reached
FROM (${destinationsSql(this.#table, this.#states)}) AS found`
    return { sql, parameters: [] }
  }
}

function pairOf(row: Row): readonly [string, StateAndDestination] {
  const pair = { state: String(row['shown_state']), destination: String(row['destination']) }
  return [`${pair.state}/${pair.destination}`, pair]
}
