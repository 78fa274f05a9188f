import type { Logger } from '@ackord/core'
import { checkCount, checkDuration } from '@ackord/core/internal'
import {
  checkRearm,
  editMessage,
  invalidCursor,
  isEmptyEdit,
  type NewOutboxRecord,
  OperatorLog,
  type OutboxAdmin,
  type OutboxEdit,
  type OutboxRecord,
  type OutboxState,
  StatsSum,
} from '@ackord/outbox'
import type { AdminStatements, StorePort } from '../contract/store-dialect.ts'
import { isSeq, storable } from '../records/claimed-record.ts'
import { type OutboxRow, outboxRowOf, readMessage } from '../records/outbox-row.ts'
import type { Row } from '../records/row.ts'

/** The operators' side of the store. */
export function outboxAdministration(
  statements: AdminStatements,
  { table, logger }: { readonly table: string; readonly logger: Logger },
): OutboxAdmin {
  const log = new OperatorLog(logger, { table })

  return {
    async list(filter, { limit, after }) {
      checkCount('limit', limit)
      if (after !== undefined && !isSeq(after)) throw invalidCursor(after)
      const rows = await statements.list(filter, after ?? '0', limit + 1)
      const records = rows.slice(0, limit).map(recordOf)
      return { records, next: rows.length > limit ? records.at(-1)?.id : undefined }
    },

    async get(id) {
      if (!isSeq(id)) return undefined
      const row = await statements.get(id)
      return row === undefined ? undefined : recordOf(row)
    },

    async rearm(which, edit = {}, options = {}) {
      const { state = 'parked', delay = 0, keepAttempts = false } = checkRearm(options)
      const known = 'ids' in which ? { ids: which.ids.filter(isSeq) } : which
      const count = await statements.rearm(known, editing(edit), { state, delay, keepAttempts })
      log.rearmed(count, state, which, edit)
      return count
    },

    async park(ids, reason) {
      const parked = await statements.park(ids.filter(isSeq), storable(reason))
      log.parked(parked, reason)
      return parked.length
    },

    async discard(ids, reason) {
      const discarded = await statements.discard(ids.filter(isSeq))
      log.discarded(discarded, reason)
      return discarded.length
    },

    async stats() {
      const sum = new StatsSum()
      for (const row of await statements.stats()) {
        const state = shownState(row)
        const age = state === 'parked' || state === 'published' ? undefined : Number(row['age'])
        sum.add(String(row['destination']), { [state]: Number(row['count']) }, age)
      }
      return sum.stats
    },

    async deletePublished({ olderThan, limit }) {
      checkDuration('olderThan', olderThan)
      checkCount('limit', limit)
      return await statements.deletePublished(olderThan, limit)
    },
  }
}

/** Attributes are merged here and not in the database, whose JSON functions round numbers and reorder names. */
function editing(edit: OutboxEdit): ((row: Row) => OutboxRow) | undefined {
  if (isEmptyEdit(edit)) return undefined
  return (row) => {
    const message = editMessage(readMessage(row).message, edit)
    return outboxRowOf({ destination: edit.destination ?? String(row['destination']), message })
  }
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
  // Computed by the library's own statement, with these five values only.
  return row['shown_state'] as OutboxState
}

function optional<V>(value: unknown, convert: (value: unknown) => V): V | undefined {
  return value === null || value === undefined ? undefined : convert(value)
}

const pageSize = 500

/** The pending records of the outbox as seen by one transaction: the operators' statements, run on its handle. */
export async function readPending(
  port: StorePort,
  transaction: unknown,
  administrationOf: (port: StorePort) => OutboxAdmin,
): Promise<readonly NewOutboxRecord[]> {
  const { driver } = port
  const inside: StorePort['driver'] = {
    ...driver,
    pool: transaction,
    run: (_, sql, parameters, options) => driver.run(transaction, sql, parameters, options),
  }
  const administration = administrationOf({ ...port, driver: inside })
  const found: NewOutboxRecord[] = []
  let after: string | undefined
  do {
    const page = await administration.list({}, { limit: pageSize, after })
    for (const { state, destination, message } of page.records) {
      if (state !== 'parked' && state !== 'published') found.push({ destination, message })
    }
    after = page.next
  } while (after !== undefined)
  return found
}
