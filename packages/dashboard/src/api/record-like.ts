import type { RawMessage } from '@ackord/core'
import type { OutboxRecord } from '@ackord/outbox'

/** Makes a record for `redact()` of something that is not a record: of a dead letter, or of a text that several records share. */
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
