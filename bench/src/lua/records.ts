import type { NewOutboxRecord } from '@ackord/outbox'
import { eventMessage } from '../event-message.ts'

let made = 0

/** A record with a unique id. */
export function newRecord(): NewOutboxRecord {
  made += 1
  return { destination: 'order-events', message: eventMessage(`e-${made}`) }
}

export function newRecords(count: number): NewOutboxRecord[] {
  return Array.from({ length: count }, newRecord)
}
