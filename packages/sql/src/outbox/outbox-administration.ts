import type { Logger } from '@ackord/core'
import { checkCount, checkDuration } from '@ackord/core/internal'
import {
  type BaseAdministration,
  checkRearm,
  editMessage,
  invalidCursor,
  isEmptyEdit,
  type NewOutboxRecord,
  OperatorLog,
  type OutboxEdit,
  type OutboxFilter,
  type OutboxGroup,
  type OutboxGroups,
  type OutboxRecord,
  type OutboxState,
  type OutboxStats,
  readHistory,
  StatsSum,
} from '@ackord/outbox'
import type { AdminStatements, ListedPage, ListedRows, StorePort } from '../contract/store-dialect.ts'
import { isSeq, storable, storableCause } from '../records/claimed-record.ts'
import { type OutboxRow, outboxRowOf, partitionOf, readMessage } from '../records/outbox-row.ts'
import type { Row } from '../records/row.ts'

/** How many parked, and how many waiting, rows `groups()` reads at most. */
const maxGrouped = 10_000

/** How many rows a page of `list()` reads at first if some may not match. Where most do, they are enough. */
const firstSearched = 2000
/** How many it reads after these at most: about 50 ms on PostgreSQL. */
const maxSearched = 30_000

/** The operators' side of the store. */
export function outboxAdministration(
  statements: AdminStatements,
  { table, logger }: { readonly table: string; readonly logger: Logger },
): BaseAdministration {
  const log = new OperatorLog(logger, { table })

  async function search(filter: OutboxFilter, page: ListedPage): Promise<ListedRows> {
    const { rows, searched } = await statements.list(filter, page)
    if (searched === undefined || rows.length === page.limit) return { rows, searched }
    const rest = { ...page, after: searched.seq, limit: page.limit - rows.length, maxRead: maxSearched }
    const more = await statements.list(filter, rest)
    return { rows: [...rows, ...more.rows], searched: more.searched }
  }

  return {
    async list(filter, { limit, after, payloads = true }) {
      checkCount('limit', limit)
      if (after !== undefined && !isSeq(after)) throw invalidCursor(after)
      const page = { after: after ?? '0', limit: limit + 1, payloads, maxRead: firstSearched, indexed: isIndexed(filter) }
      const { rows, searched } = await search(checkedFilter(filter), page)
      const records = rows.slice(0, limit).map(recordOf)
      if (rows.length > limit) return { records, next: records.at(-1)?.id }
      return { records, next: searched?.seq, searchedUntil: searched?.at }
    },

    async get(id) {
      if (!isSeq(id)) return undefined
      const row = await statements.get(id)
      return row === undefined ? undefined : recordOf(row)
    },

    async rearm(which, edit = {}, options = {}) {
      const { state = 'parked', delay = 0, keepAttempts = false } = checkRearm(options)
      const known = 'ids' in which ? { ids: which.ids.filter(isSeq) } : { filter: checkedFilter(which.filter) }
      const count = await statements.rearm(known, editing(edit), { state, delay, keepAttempts })
      log.rearmed(count, state, which, edit)
      return count
    },

    async park(ids, reason) {
      const parked = await statements.park(ids.filter(isSeq), storable(reason), storableCause(reason))
      log.parked(parked, reason)
      return parked.length
    },

    async discard(ids, reason) {
      const discarded = await statements.discard(ids.filter(isSeq))
      log.discarded(discarded, reason)
      return discarded.length
    },

    async cancelWaiting(ids, reason) {
      const cancelled = await statements.cancelWaiting(ids.filter(isSeq))
      log.cancelled(cancelled, reason)
      return cancelled.length
    },

    async stats({ limit } = {}) {
      const sum = new StatsSum(limit)
      const reached = new Set<string>()
      const { rows, requests } = await statements.stats(limit)
      for (const row of rows) {
        const state = shownState(row)
        const age = state === 'parked' || state === 'published' ? undefined : Number(row['age'])
        const destination = String(row['destination'])
        sum.add(destination, { [state]: Number(row['count']) }, age)
        if (Number(row['reached']) === 1) reached.add(destination)
      }
      return { ...cappedStats(sum.stats, reached), requests }
    },

    async history(id) {
      const row = isSeq(id) ? await statements.history(id) : undefined
      return readHistory(optional(row?.['history'], String))
    },

    async groups(by, filter = {}) {
      const { state } = filter
      if (state !== undefined && state !== 'parked' && state !== 'waiting') return { groups: [], complete: true }
      return groupsOf(await statements.groups(by, checkedFilter(filter), maxGrouped))
    },

    async deletePublished({ olderThan, limit }) {
      checkDuration('olderThan', olderThan)
      checkCount('limit', limit)
      return await statements.deletePublished(olderThan, limit)
    },
  }
}

const century = 100 * 365 * 24 * 60 * 60 * 1000

/** Texts are compared as they are stored. An instant before the first year that a database knows would be an error. */
function checkedFilter(filter: OutboxFilter): OutboxFilter {
  const { cause, error, minAge, maxAge, minParkedAge } = filter
  const age = (option: string, value: number | undefined) =>
    value === undefined ? undefined : Math.min(checkDuration(option, value), century)
  return {
    ...filter,
    cause: cause === undefined ? undefined : storableCause(cause),
    error: error === undefined ? undefined : storable(error),
    minAge: age('minAge', minAge),
    maxAge: age('maxAge', maxAge),
    minParkedAge: age('minParkedAge', minParkedAge),
  }
}

/** See `ListedPage`. No index has leases and due times. `minParkedAge` leaves out the latest parked rows only: an index of those rows still leads to nearly nothing else. */
function isIndexed({ state, destination: _, messageId, minParkedAge: __, ...others }: OutboxFilter): boolean {
  if (messageId !== undefined) return true
  return (state === undefined || state === 'parked' || state === 'published') && Object.values(others).every((one) => one === undefined)
}

/** Leased rows are shown apart from ready ones, and count towards the same limit: either number may be incomplete though it is lower. */
function cappedStats({ destinations, oldestAge }: OutboxStats, reached: ReadonlySet<string>): OutboxStats {
  return { destinations: destinations.map((one) => (reached.has(one.destination) ? { ...one, capped: true } : one)), oldestAge }
}

/** The parked and the waiting rows of a name together. */
function groupsOf(rows: readonly Row[]): OutboxGroups {
  const read = new Map<unknown, number>()
  const groups = new Map<string, OutboxGroup>()
  for (const row of rows) {
    const count = Number(row['count'])
    read.set(row['state'], (read.get(row['state']) ?? 0) + count)
    const name = optional(row['name'], String)
    if (name === undefined) continue
    const [first, last] = [Number(row['first']), Number(row['last'])]
    const other = groups.get(name) ?? { name, count: 0, first, last }
    groups.set(name, {
      name,
      count: other.count + count,
      first: Math.min(other.first, first),
      last: Math.max(other.last, last),
    })
  }
  return {
    groups: [...groups.values()].sort((one, other) => other.count - one.count),
    complete: [...read.values()].every((count) => count < maxGrouped),
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
  const { partitionkey, id } = message.attributes
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
    cause: optional(row['cause'], String),
    leasedUntil: state === 'leased' ? optional(row['lease_until'], Number) : undefined,
    publishedAt: optional(row['published_at'], Number),
    parkedAt: optional(row['parked_at'], Number),
    partition: problem === undefined ? partitionOf(String(partitionkey ?? id)) : undefined,
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
export async function readPending<Port extends StorePort>(
  port: Port,
  transaction: unknown,
  administrationOf: (port: Port) => Pick<BaseAdministration, 'list'>,
): Promise<readonly NewOutboxRecord[]> {
  const { driver } = port
  const inside: StorePort['driver'] = {
    ...driver,
    pool: transaction,
    run: (_, sql, parameters, options) => driver.run(transaction, sql, parameters, options),
    inTransaction: () => true,
  }
  // Nothing is read that only newer tables have, so the transaction need not read their version.
  const administration = administrationOf({ ...port, driver: inside, keepsFailures: async () => false })
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
