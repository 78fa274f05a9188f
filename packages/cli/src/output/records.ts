import type { OutboxAdmin, OutboxFilter, OutboxRecord, OutboxState } from '@ackord/outbox'
import { usageError } from './errors.ts'
import type { Output } from './output.ts'

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
    bytes: message.data.byteLength,
  }
}

export function recordTable(output: Output, records: readonly OutboxRecord[]): void {
  output.table(
    ['ID', 'STATE', 'DESTINATION', 'TYPE', 'KEY', 'ATTEMPTS', 'CREATED', 'LAST ERROR'],
    records.map(({ id, state, destination, message, attempts, createdAt, lastError }) => [
      id,
      state,
      destination,
      message.type ?? '',
      message.partitionKey ?? '',
      attempts,
      instant(createdAt) ?? '',
      shortened(output.masked(lastError ?? '')),
    ]),
  )
}

function instant(milliseconds: number | undefined): string | undefined {
  return milliseconds === undefined ? undefined : new Date(milliseconds).toISOString()
}

function shortened(text: string): string {
  const line = text.replaceAll(/\s+/g, ' ')
  return line.length > 80 ? `${line.slice(0, 79)}…` : line
}

/** The options that `addFilter()` adds. */
export interface FilterOptions {
  readonly destination?: string | undefined
  readonly type?: string | undefined
  readonly key?: string | undefined
}

export function filterOf({ destination, type, key }: FilterOptions, state?: OutboxState): OutboxFilter {
  return { state, destination, type, orderingKey: key }
}

/** Whether the filter excludes anything. */
function isFiltered({ destination, type, key }: FilterOptions): boolean {
  return destination !== undefined || type !== undefined || key !== undefined
}

/** How `rearm` and `discard` select records. */
export interface WhichOptions extends FilterOptions {
  readonly all?: boolean | undefined
}

const pageSize = 500

/** Rejects a selection that would be everything by accident. */
export function checkWhich(ids: readonly string[], options: WhichOptions): void {
  const filtered = isFiltered(options)
  if (ids.length > 0 && (filtered || options.all === true)) throw usageError('Use either ids or a filter, not both.')
  if (filtered && options.all === true) throw usageError('Use either a filter or --all, not both.')
  if (ids.length > 0 || filtered || options.all === true) return
  throw usageError('No records are selected.', 'Pass ids, or --destination, --type or --key, or --all.')
}

/** The parked or published records that match, page by page. Records that disappear after a page was read do not affect the next one. */
export async function* chosenPages(
  admin: OutboxAdmin,
  ids: readonly string[],
  options: WhichOptions,
  state: 'parked' | 'published',
): AsyncGenerator<readonly OutboxRecord[], void, void> {
  if (ids.length > 0) {
    const found = await Promise.all(ids.map((id) => admin.get(id)))
    const chosen = found.filter((record) => record?.state === state)
    if (chosen.length > 0) yield chosen as OutboxRecord[]
    return
  }
  let after: string | undefined
  do {
    const page = await admin.list(filterOf(options, state), { limit: pageSize, after })
    if (page.records.length > 0) yield page.records
    after = page.next
  } while (after !== undefined)
}
