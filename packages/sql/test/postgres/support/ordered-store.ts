import { type Attributes, Message, type Runtime, silentLogger, systemRuntime } from '@ackord/core'
import type { ClaimedRecord, NewOutboxRecord, Outcome } from '@ackord/outbox'
import { type Database, type SqlOutbox, sqlOutbox } from '../../../src/index.ts'

export const lease = 30_000

export function ordered<Handle>(database: Database<Handle>, runtime: Runtime = systemRuntime): SqlOutbox<Handle> {
  return sqlOutbox(database, { order: 'perKey', logger: silentLogger, runtime })
}

export function record(id: string, attributes: Attributes = {}, destination = 'events'): NewOutboxRecord {
  const message = new Message(new TextEncoder().encode(id), {
    id,
    type: 'order.placed',
    source: '/orders',
    specversion: '1.0',
    ...attributes,
  })
  return { destination, message }
}

export function keyed(key: string, id: string): NewOutboxRecord {
  return record(id, { partitionkey: key })
}

export function idsOf(claimed: readonly ClaimedRecord[]): (string | undefined)[] {
  return claimed.map(({ message }) => message.id)
}

export function published({ id, token }: ClaimedRecord): Outcome {
  return { id, token, result: 'published' }
}

/** An outcome after which the record is tried again in ten minutes. */
export function failed({ id, token }: ClaimedRecord): Outcome {
  return { id, token, result: 'failed', error: 'busy', retryAfter: 600_000 }
}

/** A runtime whose clock is off by `by` milliseconds. */
export function skewed(by: number): Runtime {
  return { ...systemRuntime, now: () => Date.now() + by }
}
