import { checkAttributes, type RawMessage } from '@ackord/core'
import { nameOf } from '@ackord/core/internal'
import type { DestinationStats, OutboxEdit, OutboxFilter, OutboxRecord } from '@ackord/outbox'

// What the operators' sides of both outboxes share.

export function matches({ state, destination, message }: OutboxRecord, filter: OutboxFilter): boolean {
  return (
    (filter.state === undefined || filter.state === state) &&
    (filter.destination === undefined || filter.destination === destination) &&
    (filter.type === undefined || filter.type === message.attributes.type) &&
    (filter.orderingKey === undefined || filter.orderingKey === message.attributes.partitionkey)
  )
}

export function isEmpty({ destination, attributes, data }: OutboxEdit): boolean {
  return destination === undefined && attributes === undefined && data === undefined
}

export function edited(message: RawMessage, { attributes, data }: OutboxEdit): RawMessage {
  const changed = message.copy(data ?? message.data).withAttributes(attributes ?? {})
  // What could not be read back would be parked again, for another reason.
  checkAttributes(changed.attributes, () => nameOf(changed))
  return changed
}

/** A destination may be in several places; the stats have it once. */
export function addStats(sums: Map<string, DestinationStats>, { destination, ...counts }: DestinationStats): void {
  const sum = sums.get(destination)
  sums.set(destination, {
    destination,
    ready: counts.ready + (sum?.ready ?? 0),
    waiting: counts.waiting + (sum?.waiting ?? 0),
    leased: counts.leased + (sum?.leased ?? 0),
    parked: counts.parked + (sum?.parked ?? 0),
    published: counts.published + (sum?.published ?? 0),
  })
}
