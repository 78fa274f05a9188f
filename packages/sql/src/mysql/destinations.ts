import type { RunStatement } from '../contract/driver.ts'
import type { Row } from '../records/row.ts'
import { joinParts, readRow, type SqlPart } from './sql-text.ts'

/** Beyond this number, a statement that queries each destination costs more than one for all. */
const maxKnown = 40

/** New destinations may be found one after the other, each with a round trip. */
const maxRounds = 10

const states = ['ready', 'waiting'] as const

/**
 * Finds the states and destinations that have records to claim, without scanning the backlog. A destination follows a known one, or the beginning: so
 * the next destination after each known one is queried, in one statement, and new ones are added and queried in turn. The known destinations are only
 * a hint, and are dropped when there are too many; no existing destination is ever missed.
 */
export class DestinationFinder {
  readonly #table: string
  #known: ReadonlySet<string> = new Set()

  constructor(table: string) {
    this.#table = table
  }

  async find(run: RunStatement): Promise<readonly StateAndDestination[]> {
    if (this.#known.size > maxKnown) return await this.#findAll(run)
    const known = new Set(this.#known)
    const found = new Map<string, StateAndDestination>()
    let asked: readonly string[] = ['', ...known]
    for (let round = 1; asked.length > 0; round += 1) {
      if (round > maxRounds) return await this.#findAll(run)
      const fresh = new Set<string>()
      for (const pair of await this.#askBehind(run, asked)) {
        found.set(`${pair.state}/${pair.destination}`, pair)
        if (!known.has(pair.destination)) fresh.add(pair.destination)
      }
      for (const destination of fresh) known.add(destination)
      asked = [...fresh]
    }
    this.#known = known
    return [...found.values()]
  }

  async #askBehind(run: RunStatement, destinations: readonly string[]): Promise<readonly StateAndDestination[]> {
    const behind = states.flatMap((state) => destinations.map((destination) => ({ state, destination })))
    const { sql, parameters } = unionSql(behind, behind.length, (pair) => nextDestinationSql(this.#table, pair))
    const { rows } = await run(sql, parameters)
    return rows.map(pairOf)
  }

  async #findAll(run: RunStatement): Promise<readonly StateAndDestination[]> {
    const pairs = await findDestinations(run, this.#table, states)
    this.#known = new Set(pairs.map(({ destination }) => destination))
    return pairs
  }
}

/** Rows are stored in order per state and destination. */
export interface StateAndDestination {
  readonly state: string
  readonly destination: string
}

/** The number of states and destinations that one statement reads. */
export const batchSize = 50

/**
 * The states and destinations that have rows in one of these states. Once the server has index statistics it skips from one to the next in the key
 * ("Using index for group-by"); before, it reads the whole index. Takes no locks.
 */
export function destinationsSql(table: string, states: readonly string[]): string {
  const listed = states.map((state) => `'${state}'`).join(', ')
  return `SELECT o.state, o.destination FROM ${table} AS o FORCE INDEX (due) WHERE o.state IN (${listed}) GROUP BY o.state, o.destination`
}

/** The first destination in a state after this one: reads one index entry. */
function nextDestinationSql(table: string, { state, destination }: StateAndDestination): SqlPart {
  return {
    sql: `SELECT o.state, o.destination FROM ${table} AS o FORCE INDEX (PRIMARY)
WHERE o.state = ? AND o.destination > ? ORDER BY o.destination LIMIT 1`,
    parameters: [state, destination],
  }
}

export async function findDestinations(
  run: RunStatement,
  table: string,
  states: readonly string[],
): Promise<readonly StateAndDestination[]> {
  const { rows } = await run(destinationsSql(table, states))
  return rows.map(pairOf)
}

/** Reads up to `limit` rows of these states and destinations, with one statement per batch. */
export async function readEach(
  run: RunStatement,
  pairs: readonly StateAndDestination[],
  limit: number,
  select: (pair: StateAndDestination) => SqlPart,
): Promise<readonly Row[]> {
  const found: Row[] = []
  for (let start = 0; start < pairs.length && found.length < limit; start += batchSize) {
    const { sql, parameters } = unionSql(pairs.slice(start, start + batchSize), limit - found.length, select)
    const { rows } = await run(sql, parameters)
    found.push(...rows.map(readRow))
  }
  return found.slice(0, limit)
}

export function unionSql(pairs: readonly StateAndDestination[], limit: number, select: (pair: StateAndDestination) => SqlPart): SqlPart {
  const [pair] = pairs
  // Not every server accepts a limit after a single SELECT in parentheses.
  if (pair !== undefined && pairs.length === 1) return select(pair)
  const { sql, parameters } = joinParts(pairs.map(select), ')\nUNION ALL\n(')
  return { sql: `(${sql})\nLIMIT ${limit}`, parameters }
}

function pairOf(row: Row): StateAndDestination {
  const { state, destination } = readRow(row)
  return { state: String(state), destination: String(destination) }
}
