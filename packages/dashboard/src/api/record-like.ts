import type { RawMessage } from '@ackord/core'
import type { OutboxRecord } from '@ackord/outbox'

/** What `redact` is called with for something that is not a record: a dead letter, or a text that belongs to no single record. */
export function recordLike(
  message: RawMessage,
  more: Partial<Pick<OutboxRecord, 'id' | 'destination' | 'lastError' | 'parkedAt'>> = {},
): OutboxRecord {
  return {
    id: '',
    state: 'parked',
    destination: '',
    message,
    attempts: 0,
    createdAt: 0,
    availableAt: 0,
    lastError: undefined,
    cause: undefined,
    leasedUntil: undefined,
    publishedAt: undefined,
    parkedAt: undefined,
    ...more,
  }
}
