import type { OutboxFilter } from '@ackord/outbox'
import type { Row, RunStatement } from '../driver.ts'
import type { AdminStatements, StorePort } from '../store-dialect.ts'
import { getSql, oldSql, pageSql, parkedSql, rearmAsSql, rearmSql, rowsSql, statsSql, storedStates } from './admin-statements.ts'
import { readRow } from './outbox-rows.ts'
import { findPlaces, type Place, readPlaces } from './places.ts'
import { keyOf, type RowKey } from './row-keys.ts'
import { deleteSql } from './settle-statements.ts'
import type { SqlPart } from './sql-part.ts'
import { storeTransaction } from './store-transaction.ts'

const allStates = ['parked', 'published', 'ready', 'waiting']

export function mysqlAdministration({ driver, table }: StorePort): AdminStatements {
  const run: RunStatement = (sql, parameters = []) => driver.run(driver.pool, sql, parameters)

  /** Nothing is ordered by seq and led by a state: each place gives a page of keys, and the first of them all are read. */
  async function keysOfPage(filter: OutboxFilter, after: string, limit: number): Promise<readonly RowKey[]> {
    const places = await findPlaces(run, table, filter.state === undefined ? allStates : storedStates[filter.state])
    const wanted = places.filter(({ destination }) => filter.destination === undefined || destination === filter.destination)
    const page = (place: Place) => pageSql(table, place, filter, after, limit)
    const keys = (await readPlaces(run, wanted, limit * wanted.length, page)).map(keyOf)
    return keys.sort(bySeq).slice(0, limit)
  }

  return {
    async list(filter, after, limit) {
      const keys = await keysOfPage(filter, after, limit)
      return keys.length === 0 ? [] : await rowsOf(run, rowsSql(table, keys))
    },

    async get(seq) {
      const { rows } = await run(getSql(table, seq))
      return rows.map(readRow)[0]
    },

    async rearm(which, edit) {
      if (edit === undefined) {
        const { sql, parameters } = rearmSql(table, which)
        return await storeTransaction(driver, async (inside) => (await inside(sql, parameters)).count)
      }
      return await storeTransaction(driver, async (inside) => {
        const rows = await rowsOf(inside, parkedSql(table, which))
        for (const row of rows) {
          const { sql, parameters } = rearmAsSql(table, keyOf(row), edit(row))
          await inside(sql, parameters)
        }
        return rows.length
      })
    },

    discard: (ids) =>
      storeTransaction(driver, async (inside) => {
        const rows = await rowsOf(inside, parkedSql(table, { ids }))
        await remove(inside, table, rows)
        return rows.map(({ seq, id, type }) => ({ seq, id, type }))
      }),

    async stats() {
      const { rows } = await run(statsSql(table))
      return rows.map(readRow)
    },

    deletePublished: (olderThan, limit) =>
      storeTransaction(driver, async (inside) => {
        const rows = await rowsOf(inside, { sql: oldSql(table, olderThan, limit), parameters: [] })
        await remove(inside, table, rows)
        return rows.length
      }),
  }
}

async function rowsOf(run: RunStatement, { sql, parameters }: SqlPart): Promise<readonly Row[]> {
  const { rows } = await run(sql, parameters)
  return rows.map(readRow)
}

async function remove(run: RunStatement, table: string, rows: readonly Row[]): Promise<void> {
  if (rows.length === 0) return
  const { sql, parameters } = deleteSql(table, rows.map(keyOf))
  await run(sql, parameters)
}

/** Numbers as text, which may be larger than a JavaScript number can tell apart. */
function bySeq(one: RowKey, other: RowKey): number {
  return one.seq.length - other.seq.length || (one.seq < other.seq ? -1 : 1)
}
