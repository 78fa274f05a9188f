import type { MemoryOutboxStore, OutboxAdmin } from '@ackord/outbox'

/** The `list` of a store that reads this many records for a page, as one on a large table does. `onPage` is called before each page. */
export function shortPages(store: MemoryOutboxStore, size: number, onPage: () => Promise<void> | void = () => {}): OutboxAdmin['list'] {
  const list = store.list.bind(store)
  return async (filter, page) => {
    await onPage()
    const read = await list({}, { ...page, limit: size })
    const end = read.records.at(-1)
    const { records, next } = await list(filter, page)
    const found = records.filter(({ id }) => Number(id) <= Number(end?.id))
    // Full, or the store has no more.
    if (read.next === undefined || found.length === page.limit)
      return { records: found, next: found.length === records.length ? next : found.at(-1)?.id }
    return { records: found, next: read.next, searchedUntil: end?.createdAt }
  }
}
