import type { InboxKey } from '@ackord/outbox'

/** A key of one consumer as a unique string. */
export function textOf({ source, id }: InboxKey): string {
  return `${source.length} ${source}${id}`
}
