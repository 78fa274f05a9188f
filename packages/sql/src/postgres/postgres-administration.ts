import { rootContext } from '@ackord/core'
import type { Row, RunStatement } from '../driver.ts'
import type { OutboxRow } from '../outbox-row.ts'
import type { AdminStatements, ParkedRows, StorePort } from '../store-dialect.ts'
import { deletePublishedSql, getSql, listSql, parkedSql, statsSql } from './admin-statements.ts'

export function postgresAdministration({ driver, table }: StorePort): AdminStatements {
  const run: RunStatement = (sql, parameters = []) => driver.run(driver.pool, sql, parameters)
  return {
    async list(filter, after, limit) {
      const { sql, parameters } = listSql(table, filter)
      return (await run(sql, [after, limit, ...parameters])).rows
    },

    async get(seq) {
      return (await run(getSql(table), [seq])).rows[0]
    },

    rearm: (which, edit) => driver.transaction([], (session) => rearm(session.run, table, which, edit), rootContext().signal),

    async discard(ids) {
      const { sql, parameters } = parkedSql(table, { ids })
      return (await run(`DELETE FROM ${table} WHERE ctid = ANY(ARRAY(${sql})) RETURNING seq::text AS seq, id, type`, parameters)).rows
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
  const { sql, parameters } = parkedSql(table, which)
  const ready = `state = 'ready', attempts = 0, parked_at = NULL, available_at = clock_timestamp()`
  if (edit === undefined) {
    const { count } = await run(`UPDATE ${table} SET ${ready} WHERE ctid = ANY(ARRAY(${sql}))`, parameters)
    return count
  }
  const { rows } = await run(
    `SELECT ctid::text AS place, destination, id, type, data, attributes FROM ${table} WHERE ctid = ANY(ARRAY(${sql}))`,
    parameters,
  )
  for (const row of rows) {
    const to = edit(row)
    await run(
      `UPDATE ${table} SET ${ready}, destination = $2, data = $3::bytea, id = $4, type = $5, content_type = $6, ordering_key = $7,
partition = $8::smallint, attributes = $9 WHERE ctid = $1::tid`,
      [row['place'], to.destination, to.data, to.id, to.type, to.contentType, to.orderingKey, to.partition, to.attributes],
    )
  }
  return rows.length
}
