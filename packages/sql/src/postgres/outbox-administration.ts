import { type Logger, rootContext } from '@ackord/core'
import { checkCount, checkDuration } from '@ackord/core/internal'
import type { DestinationStats, OutboxAdmin, OutboxEdit, OutboxRecord, OutboxState } from '@ackord/outbox'
import type { Driver, Row, RunStatement } from '../driver.ts'
import { outboxRowOf } from '../outbox-row.ts'
import { deletePublishedSql, getSql, listSql, parkedSql, statsSql } from './admin-statements.ts'
import { isSeq } from './claim-token.ts'
import { readMessage } from './outbox-message.ts'

/** The operators' side of the store. */
export function outboxAdministration(
  driver: Driver<unknown>,
  run: RunStatement,
  table: string,
  { logger }: { readonly logger: Logger },
): OutboxAdmin {
  return {
    async list(filter, { limit, after = '0' }) {
      checkCount('limit', limit)
      const { sql, parameters } = listSql(table, filter)
      const { rows } = await run(sql, [after === '0' || isSeq(after) ? after : '0', limit + 1, ...parameters])
      const records = rows.slice(0, limit).map(recordOf)
      return { records, next: rows.length > limit ? records.at(-1)?.id : undefined }
    },

    async get(id) {
      if (!isSeq(id)) return undefined
      const { rows } = await run(getSql(table), [id])
      return rows[0] === undefined ? undefined : recordOf(rows[0])
    },

    async rearm(which, edit = {}) {
      const known = 'ids' in which ? { ids: which.ids.filter(isSeq) } : which
      const count = await driver.transaction([], (session) => rearm(session.run, table, known, edit), rootContext().signal)
      if (count > 0) logger.info({ table, count, ...which, edited: Object.keys(edit) }, 'Parked outbox records were made ready again.')
      return count
    },

    async discard(ids, reason) {
      const { sql, parameters } = parkedSql(table, { ids: ids.filter(isSeq) })
      const { count, rows } = await run(
        `DELETE FROM ${table} WHERE ctid = ANY(ARRAY(${sql})) RETURNING seq::text AS seq, id, type`,
        parameters,
      )
      if (count > 0) logger.info({ table, reason, discarded: rows }, 'Parked outbox records were discarded.')
      return count
    },

    async stats() {
      const { rows } = await run(statsSql(table))
      const destinations = new Map<string, { -readonly [K in keyof DestinationStats]: DestinationStats[K] }>()
      let oldestAge: number | undefined
      for (const row of rows) {
        const destination = String(row['destination'])
        const counts = destinations.get(destination) ?? { destination, ready: 0, waiting: 0, leased: 0, parked: 0, published: 0 }
        destinations.set(destination, counts)
        const state = shownState(row)
        counts[state] = Number(row['count'])
        if (state !== 'parked' && state !== 'published') oldestAge = Math.max(oldestAge ?? 0, Number(row['age']))
      }
      return { destinations: [...destinations.values()], oldestAge }
    },

    async deletePublished({ olderThan, limit }) {
      checkDuration('olderThan', olderThan)
      checkCount('limit', limit)
      const { count } = await run(deletePublishedSql(table), [olderThan, limit])
      return count
    },
  }
}

/** Attributes are merged here and not in the database, whose JSON functions would round numbers and sort names. */
async function rearm(run: RunStatement, table: string, which: Parameters<typeof parkedSql>[1], edit: OutboxEdit): Promise<number> {
  const { sql, parameters } = parkedSql(table, which)
  const ready = `state = 'ready', attempts = 0, parked_at = NULL, available_at = clock_timestamp()`
  const { destination, attributes, data } = edit
  if (destination === undefined && attributes === undefined && data === undefined) {
    const { count } = await run(`UPDATE ${table} SET ${ready} WHERE ctid = ANY(ARRAY(${sql}))`, parameters)
    return count
  }
  const { rows } = await run(
    `SELECT ctid::text AS place, destination, id, type, data, attributes FROM ${table} WHERE ctid = ANY(ARRAY(${sql}))`,
    parameters,
  )
  for (const row of rows) {
    const { message } = readMessage(row)
    const edited = message.copy(data ?? message.data).withAttributes(attributes ?? {})
    const to = outboxRowOf({ destination: destination ?? String(row['destination']), message: edited })
    await run(
      `UPDATE ${table} SET ${ready}, destination = $2, data = $3::bytea, id = $4, type = $5, content_type = $6, ordering_key = $7,
partition = $8::smallint, attributes = $9 WHERE ctid = $1::tid`,
      [row['place'], to.destination, to.data, to.id, to.type, to.contentType, to.orderingKey, to.partition, to.attributes],
    )
  }
  return rows.length
}

function recordOf(row: Row): OutboxRecord {
  const { message, problem } = readMessage(row)
  const state = shownState(row)
  return {
    id: String(row['seq']),
    state,
    destination: String(row['destination']),
    message,
    attempts: Number(row['attempts']),
    createdAt: Number(row['created_at']),
    availableAt: Number(row['available_at']),
    lastError: optional(row['last_error'], String) ?? problem,
    leasedUntil: state === 'leased' ? optional(row['lease_until'], Number) : undefined,
    publishedAt: optional(row['published_at'], Number),
    parkedAt: optional(row['parked_at'], Number),
  }
}

function shownState(row: Row): OutboxState {
  // Computed by our own statement, from these five only.
  return row['shown_state'] as OutboxState
}

function optional<V>(value: unknown, convert: (value: unknown) => V): V | undefined {
  return value === null || value === undefined ? undefined : convert(value)
}
