import type { RunStatement } from '../contract/driver.ts'
import type { Row } from '../records/row.ts'
import { joinParts, readRow, type SqlPart } from './sql-text.ts'

/** More than these, and a statement that asks for each is dearer than one for all. */
const mostKnown = 40

/** New ones may come one after the other, each by a round trip. */
const mostRounds = 10

const states = ['ready', 'waiting'] as const

/**
 * Finds the places that have something to claim, without a look at the backlog. A destination is behind one that is known, or behind the
 * beginning: so the next one behind each is asked for, in one statement, and those that are new are known and asked in turn. Which are
 * known is a hint only, and is forgotten when they become too many; nothing that is there is ever missed.
 */
export class PlaceFinder {
  readonly #table: string
  #known: ReadonlySet<string> = new Set()

  constructor(table: string) {
    this.#table = table
  }

  async find(run: RunStatement): Promise<readonly Place[]> {
    if (this.#known.size > mostKnown) return await this.#findAll(run)
    const known = new Set(this.#known)
    const found = new Map<string, Place>()
    let asked: readonly string[] = ['', ...known]
    for (let round = 1; asked.length > 0; round += 1) {
      if (round > mostRounds) return await this.#findAll(run)
      const fresh = new Set<string>()
      for (const place of await this.#askBehind(run, asked)) {
        found.set(`${place.state}/${place.destination}`, place)
        if (!known.has(place.destination)) fresh.add(place.destination)
      }
      for (const destination of fresh) known.add(destination)
      asked = [...fresh]
    }
    this.#known = known
    return [...found.values()]
  }

  async #askBehind(run: RunStatement, destinations: readonly string[]): Promise<readonly Place[]> {
    const behind = states.flatMap((state) => destinations.map((destination) => ({ state, destination })))
    const { sql, parameters } = unionSql(behind, behind.length, (place) => nextPlaceSql(this.#table, place))
    const { rows } = await run(sql, parameters)
    return rows.map(placeOf)
  }

  async #findAll(run: RunStatement): Promise<readonly Place[]> {
    const places = await findPlaces(run, this.#table, states)
    this.#known = new Set(places.map(({ destination }) => destination))
    return places
  }
}

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
function nextPlaceSql(table: string, { state, destination }: Place): SqlPart {
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

function placeOf(row: Row): Place {
  const { state, destination } = readRow(row)
  return { state: String(state), destination: String(destination) }
}
