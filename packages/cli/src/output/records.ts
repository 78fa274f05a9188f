import { type Logger, type Runtime, systemRuntime } from '@ackord/core'
import type { OutboxAdmin, OutboxFilter, OutboxListOptions, OutboxPage, OutboxRecord, OutboxState } from '@ackord/outbox'
import { usageError } from './errors.ts'
import type { Output } from './output.ts'
import type { Column } from './table.ts'
import { instant, onOneLine, toSeconds } from './text.ts'

/** A record as JSON. Its payload is included only on request. The error comes from a driver. */
export function recordObject(output: Output, record: OutboxRecord): Record<string, unknown> {
  const { message } = record
  return {
    id: record.id,
    state: record.state,
    destination: record.destination,
    message_id: message.id,
    type: message.type,
    source: message.source,
    key: message.partitionKey,
    attempts: record.attempts,
    created_at: instant(record.createdAt),
    available_at: instant(record.availableAt),
    leased_until: instant(record.leasedUntil),
    parked_at: instant(record.parkedAt),
    published_at: instant(record.publishedAt),
    last_error: record.lastError === undefined ? undefined : output.masked(record.lastError),
    cause: record.cause === undefined ? undefined : output.masked(record.cause),
    bytes: message.data.byteLength,
  }
}

/** The lines of a table of records. On a terminal LAST ERROR is cut first, then the key, the type and the destination; ids never are. */
export function recordTable(output: Output, records: readonly OutboxRecord[]): readonly string[] {
  const { terminal, colours } = output
  const columns: readonly Column<OutboxRecord>[] = [
    { heading: 'ID', cell: ({ id }) => id },
    { heading: 'STATE', cell: ({ state }) => state, colour: (text, { state }) => (state === 'parked' ? colours.yellow(text) : text) },
    { heading: 'DESTINATION', cell: ({ destination }) => destination, cut: { rank: 4, min: 11 } },
    { heading: 'MESSAGE ID', cell: ({ message }) => message.id ?? '', omit: 1 },
    { heading: 'TYPE', cell: ({ message }) => message.type ?? '', cut: { rank: 3, min: 8 }, omit: 4 },
    { heading: 'KEY', cell: ({ message }) => message.partitionKey ?? '', cut: { rank: 2, min: 6 }, omit: 2 },
    { heading: 'ATTEMPTS', cell: ({ attempts }) => attempts },
    // A terminal has no room for milliseconds.
    { heading: 'CREATED', cell: ({ createdAt }) => (terminal ? toSeconds(createdAt) : (instant(createdAt) ?? '')), omit: 3 },
    { heading: 'LAST ERROR', cell: ({ lastError }) => onOneLine(output.masked(lastError ?? '')), cut: { rank: 1, min: 16 }, omit: 5 },
  ]
  return output.table(columns, records)
}

/** The options that `addFilter()` adds. */
export interface FilterOptions {
  readonly messageId?: string | undefined
  readonly destination?: string | undefined
  readonly type?: string | undefined
  readonly key?: string | undefined
  readonly cause?: string | undefined
  readonly error?: string | undefined
  readonly olderThan?: number | undefined
  readonly newerThan?: number | undefined
}

export function filterOf(options: FilterOptions, state?: OutboxState): OutboxFilter {
  const { messageId, destination, type, key, cause, error, olderThan, newerThan } = options
  return { state, messageId, destination, type, orderingKey: key, cause, error, minAge: olderThan, maxAge: newerThan }
}

/** Whether the filter excludes anything. */
function isFiltered(options: FilterOptions): boolean {
  return Object.values(filterOf(options)).some((criterion) => criterion !== undefined)
}

/** How `rearm`, `discard` and `cancel` select records. */
export interface WhichOptions extends FilterOptions {
  readonly all?: boolean | undefined
}

const pageSize = 500

/** Rejects a selection of none, or of two kinds, where a command accepts ids or a message id. */
export function checkIds(ids: readonly string[], { messageId }: FilterOptions): void {
  if (ids.length > 0 && messageId !== undefined) throw usageError('Use either ids or --message-id, not both.')
  if (ids.length === 0 && messageId === undefined) throw usageError('No record is selected.', 'Pass the id of a record, or --message-id.')
}

/** Whether particular records are selected, so that finding none is a failure. */
export function isNamed(ids: readonly string[], { messageId }: FilterOptions): boolean {
  return ids.length > 0 || messageId !== undefined
}

/** Rejects a selection that would be everything by accident. */
export function checkWhich(ids: readonly string[], options: WhichOptions): void {
  const filtered = isFiltered(options)
  if (ids.length > 0 && (filtered || options.all === true)) throw usageError('Use either ids or a filter, not both.')
  if (filtered && options.all === true) throw usageError('Use either a filter or --all, not both.')
  if (ids.length > 0 || filtered || options.all === true) return
  throw usageError('No records are selected.', 'Pass ids, or a filter such as --message-id, --destination or --cause, or --all.')
}

/** The records in this state that match, page by page. Records that disappear after a page was read do not affect the next one. */
export async function* chosenPages(
  admin: OutboxAdmin,
  ids: readonly string[],
  options: WhichOptions,
  state: 'parked' | 'published' | 'waiting',
): AsyncGenerator<readonly OutboxRecord[], void, void> {
  if (ids.length > 0) {
    const found = await Promise.all(ids.map((id) => admin.get(id)))
    const chosen = found.filter((record) => record?.state === state)
    if (chosen.length > 0) yield chosen as OutboxRecord[]
    return
  }
  yield* matchingPages(admin, filterOf(options, state))
}

/** Milliseconds after which a search says how far it is, and again each time. */
const progressInterval = 2000

/** A page with all the records that fit into it. A store may return short pages while it searches. */
export async function fullPage(
  admin: Pick<OutboxAdmin, 'list'>,
  filter: OutboxFilter,
  { limit, after }: OutboxListOptions,
  { logger, signal, runtime = systemRuntime }: { readonly logger: Logger; readonly signal: AbortSignal; readonly runtime?: Runtime },
): Promise<OutboxPage> {
  const records: OutboxRecord[] = []
  let reportedAt = runtime.monotonic()
  for (let from = after; ; ) {
    const { records: found, next, searchedUntil } = await admin.list(filter, { limit: limit - records.length, after: from })
    records.push(...found)
    if (next === undefined || records.length >= limit) return { records, next }
    signal.throwIfAborted()
    if (runtime.monotonic() - reportedAt >= progressInterval) {
      reportedAt = runtime.monotonic()
      logger.info({ found: records.length, searched_until: instant(searchedUntil) }, 'Still searching.')
    }
    from = next
  }
}

export async function* matchingPages(admin: OutboxAdmin, filter: OutboxFilter): AsyncGenerator<readonly OutboxRecord[], void, void> {
  let after: string | undefined
  do {
    const page = await admin.list(filter, { limit: pageSize, after })
    if (page.records.length > 0) yield page.records
    after = page.next
  } while (after !== undefined)
}
