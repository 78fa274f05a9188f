import type { Row, RunStatement } from '../driver.ts'
import { readRow } from './outbox-rows.ts'
import { joinParts, type SqlPart } from './sql-part.ts'

/** Where rows are found in their order: a state of a destination. */
export interface Place {
  readonly state: string
  readonly destination: string
}

/** How many places one statement looks into. */
const placesAtOnce = 50

/**
 * The places that have rows in one of these states. Where the server has counted them it jumps from one to the next in the key ("Using index
 * for group-by"); before, it reads the whole of it. Locks nothing.
 */
export function placesSql(table: string, states: readonly string[]): string {
  const listed = states.map((state) => `'${state}'`).join(', ')
  return `SELECT o.state, o.destination FROM ${table} AS o FORCE INDEX (due) WHERE o.state IN (${listed}) GROUP BY o.state, o.destination`
}

/** The first place of a state behind a destination: one entry is read. */
export function nextPlaceSql(table: string, { state, destination }: Place): SqlPart {
  return {
    sql: `SELECT o.state, o.destination FROM ${table} AS o FORCE INDEX (PRIMARY)
WHERE o.state = ? AND o.destination > ? ORDER BY o.destination LIMIT 1`,
    parameters: [state, destination],
  }
}

export async function findPlaces(run: RunStatement, table: string, states: readonly string[]): Promise<readonly Place[]> {
  const { rows } = await run(placesSql(table, states))
  return rows.map(placeOf)
}

/** So many rows at most of these places in turn, by a statement for each portion of them. */
export async function readPlaces(
  run: RunStatement,
  places: readonly Place[],
  limit: number,
  select: (place: Place) => SqlPart,
): Promise<readonly Row[]> {
  const found: Row[] = []
  for (let start = 0; start < places.length && found.length < limit; start += placesAtOnce) {
    const { sql, parameters } = unionSql(places.slice(start, start + placesAtOnce), limit - found.length, select)
    const { rows } = await run(sql, parameters)
    found.push(...rows.map(readRow))
  }
  return found.slice(0, limit)
}

export function unionSql(places: readonly Place[], limit: number, select: (place: Place) => SqlPart): SqlPart {
  const [place] = places
  // Not every server takes a limit behind a single one in parentheses.
  if (place !== undefined && places.length === 1) return select(place)
  const { sql, parameters } = joinParts(places.map(select), ')\nUNION ALL\n(')
  return { sql: `(${sql})\nLIMIT ${limit}`, parameters }
}

export function placeOf(row: Row): Place {
  const { state, destination } = readRow(row)
  return { state: String(state), destination: String(destination) }
}
