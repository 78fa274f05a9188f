import type { RunStatement } from '../driver.ts'
import { findPlaces, nextPlaceSql, type Place, placeOf, unionSql } from './places.ts'

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
