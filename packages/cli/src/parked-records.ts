import type { OutboxAdmin, OutboxRecord } from '@ackord/outbox'
import { usageError } from './command-error.ts'
import { type FilterOptions, filterOf, isFiltered } from './record-filter.ts'

/** What `rearm` and `discard` are told of which records. */
export interface WhichOptions extends FilterOptions {
  readonly all?: boolean | undefined
}

const pageSize = 500

/** Refuses what would be everything by accident. */
export function checkWhich(ids: readonly string[], options: WhichOptions): void {
  const filtered = isFiltered(options)
  if (ids.length > 0 && (filtered || options.all === true)) throw usageError('Give either ids or a filter, not both.')
  if (filtered && options.all === true) throw usageError('Give either a filter or --all, not both.')
  if (ids.length > 0 || filtered || options.all === true) return
  throw usageError('Say which records.', 'Give their ids, or --destination, --type or --key, or --all.')
}

/** The parked ones among them, page by page: those that are gone after a page was read do not disturb the next. */
export async function* parkedPages(
  admin: OutboxAdmin,
  ids: readonly string[],
  options: WhichOptions,
): AsyncGenerator<readonly OutboxRecord[], void, void> {
  if (ids.length > 0) {
    const found = await Promise.all(ids.map((id) => admin.get(id)))
    const parked = found.filter((record) => record?.state === 'parked')
    if (parked.length > 0) yield parked as OutboxRecord[]
    return
  }
  let after: string | undefined
  do {
    const page = await admin.list(filterOf(options, 'parked'), { limit: pageSize, after })
    if (page.records.length > 0) yield page.records
    after = page.next
  } while (after !== undefined)
}
