import { Message } from '@ackord/core'
import type { NewOutboxRecord } from '@ackord/outbox'

const data = new Uint8Array(256).fill(120)
let made = 0

/** Each with an id of its own. */
export function newRecord(): NewOutboxRecord {
  made += 1
  const attributes = {
    id: `e-${made}`,
    type: 'order.placed',
    source: '/orders',
    specversion: '1.0',
    time: '2026-11-15T12:00:00.000Z',
    datacontenttype: 'application/json',
  }
  return { destination: 'order-events', message: new Message(data, attributes) }
}

export function newRecords(count: number): NewOutboxRecord[] {
  return Array.from({ length: count }, newRecord)
}
