import type { OutboxFilter, OutboxState } from '@ackord/outbox'

/** What `addFilter()` gives. */
export interface FilterOptions {
  readonly destination?: string | undefined
  readonly type?: string | undefined
  readonly key?: string | undefined
}

export function filterOf({ destination, type, key }: FilterOptions, state?: OutboxState): OutboxFilter {
  return { state, destination, type, orderingKey: key }
}

/** Whether it leaves anything out. */
export function isFiltered({ destination, type, key }: FilterOptions): boolean {
  return destination !== undefined || type !== undefined || key !== undefined
}
