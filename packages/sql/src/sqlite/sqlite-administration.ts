import { rootContext } from '@ackord/core'
import type { Row, RunStatement } from '../driver.ts'
import type { OutboxRow } from '../outbox-row.ts'
import type { AdminStatements, ParkedRows, StorePort } from '../store-dialect.ts'
import { deletePublishedSql, getSql, listSql, parkedRowsSql, statsSql } from './admin-statements.ts'
import { now } from './clock.ts'

export function sqliteAdministration({ driver, table }: StorePort): AdminStatements {
  const run: RunStatement = (sql, parameters = []) => driver.run(driver.pool, sql, parameters)
  return {
    async list(filter, after, limit) {
      const { sql, parameters } = listSql(table, filter, after, limit)
      return (await run(sql, parameters)).rows
    },

    async get(seq) {
      return (await run(getSql(table), [seq])).rows[0]
    },

    rearm: (which, edit) => driver.transaction([], (session) => rearm(session.run, table, which, edit), rootContext().signal),

    async discard(ids) {
      const { sql, parameters } = parkedRowsSql({ ids })
      return (await run(`DELETE FROM ${table} WHERE ${sql} RETURNING CAST(seq AS TEXT) AS seq, id, type`, parameters)).rows
    },

    async stats() {
      return (await run(statsSql(table))).rows
    },

    async deletePublished(olderThan, limit) {
      return (await run(deletePublishedSql(table), [olderThan, limit])).count
    },
  }
}

async function rearm(run: RunStatement, table: string, which: ParkedRows, edit: ((row: Row) => OutboxRow) | undefined): Promise<number> {
  const { sql, parameters } = parkedRowsSql(which)
  const ready = `state = 'ready', attempts = 0, parked_at = NULL, available_at = ${now}`
  if (edit === undefined) return (await run(`UPDATE ${table} SET ${ready} WHERE ${sql}`, parameters)).count
  const { rows } = await run(
    `SELECT CAST(seq AS TEXT) AS seq, destination, id, type, data, attributes FROM ${table} WHERE ${sql}`,
    parameters,
  )
  for (const row of rows) {
    const to = edit(row)
    await run(
      `UPDATE ${table} SET ${ready}, destination = ?, data = coalesce(?, zeroblob(0)), id = ?, type = ?, content_type = ?, ordering_key = ?,
partition = ?, attributes = ? WHERE seq = CAST(? AS INTEGER)`,
      [to.destination, to.data, to.id, to.type, to.contentType, to.orderingKey, to.partition, to.attributes, row['seq']],
    )
  }
  return rows.length
}
