import { AckordError, type RawMessage, type Runtime, toError } from '@ackord/core'
import { describeValue } from '@ackord/core/internal'
import type { ClaimedRecord } from './outbox-store.ts'
import { neverSettled, parked } from './outcomes.ts'
import type { MappedRecord, MapRecord } from './relay-record.ts'
import type { ParkReason, Verdict } from './verdict.ts'

export interface ScreenOptions {
  readonly maxAttempts: number
  readonly map: MapRecord | undefined
  readonly runtime: Runtime
}

/** A record on its way: what is published of it, and under which name. */
export interface Sending {
  readonly record: ClaimedRecord
  readonly name: string
  readonly message: RawMessage
}

/** What is to be published of a record, or why it is not. */
export function screenRecord(record: ClaimedRecord, options: ScreenOptions): Sending | Verdict {
  const { maxAttempts, map, runtime } = options
  // Before anybody looks into it: it may be what ends its relays.
  const unsettled = neverSettled(record, maxAttempts)
  if (unsettled !== undefined) return refused(record, 'unsettled', unsettled)
  const { expiryTime } = record.message
  if (expiryTime !== undefined && expiryTime.getTime() <= runtime.now()) return refused(record, 'expired', expired(expiryTime))
  if (map === undefined) return { record, name: record.destination, message: record.message }
  try {
    return mapped(record, map(record))
  } catch (error) {
    return refused(record, 'unmapped', notMapped(error))
  }
}

function refused(record: ClaimedRecord, reason: ParkReason, error: AckordError): Verdict {
  return { record, outcome: parked(record, error), error, reason }
}

function mapped(record: ClaimedRecord, result: MappedRecord | undefined): Sending {
  // A promise would be taken for a result that changes nothing.
  if (result !== undefined && (typeof result !== 'object' || result === null || 'then' in result)) {
    throw new TypeError(`it must return { destination, message } or undefined, and returned ${describeValue(result)}`)
  }
  const { destination: name = record.destination, message = record.message } = result ?? {}
  if (typeof name !== 'string' || name === '') throw new TypeError(`the destination must be a name, and is ${describeValue(name)}`)
  if (!(message?.data instanceof Uint8Array)) throw new TypeError('the message must be one with bytes as its data')
  // Consumers recognise a duplicate by its id.
  if (message.id !== record.message.id) throw new TypeError('the message must keep its id')
  return { record, name, message }
}

function expired(at: Date): AckordError {
  const text = `It was not published: it has expired, its expirytime of ${at.toISOString()} has passed by the relay's clock.`
  return new AckordError('ACKORD_MESSAGE_EXPIRED', text, { retryable: false })
}

function notMapped(thrown: unknown): AckordError {
  const cause = toError(thrown)
  return new AckordError('ACKORD_PUBLISH_FAILED', `It was not published: map() failed for it: ${cause.message}`, {
    cause,
    retryable: false,
  })
}
