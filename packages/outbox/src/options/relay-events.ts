import type { Logger, RawMessage } from '@ackord/core'

/**
 * Why a record is parked. `permanent`: the publisher reported a permanent failure. `attempts`: it has used up its attempts. `unsettled`: it was
 * claimed too often and never settled. `expired`: its `expirytime` has passed. `unmapped`: `map` failed for it. `behind`: an earlier record of its
 * key is parked, and `onExhausted` is 'parkKey'.
 */
export type ParkReason = 'permanent' | 'attempts' | 'unsettled' | 'expired' | 'unmapped' | 'behind'

/** The events that a relay reports. Records contain payloads: think before you log one as a whole. */
export type RelayEvent =
  /** `lost`: settled too late or not at all; another relay may have published them too. `released`: returned to the store as they were. */
  | { readonly type: 'claimed' | 'published' | 'released' | 'lost'; readonly records: readonly RelayRecord[] }
  | { readonly type: 'failed'; readonly record: RelayRecord; readonly error: unknown; readonly retryAfter: number }
  | {
      readonly type: 'parked'
      readonly record: RelayRecord
      readonly error: unknown
      readonly reason: ParkReason
    }
  | { readonly type: 'destinationDown'; readonly destination: string; readonly error: unknown }
  /** The destination was down for `downFor` milliseconds. */
  | { readonly type: 'destinationUp'; readonly destination: string; readonly downFor: number }
  | { readonly type: 'storeDown'; readonly error: unknown }
  | { readonly type: 'storeUp'; readonly downFor: number }
  /** The dead letter did not accept copies of these records; they are parked nevertheless. */
  | { readonly type: 'deadLetterFailed'; readonly records: readonly RelayRecord[]; readonly error: unknown }

/** Wraps a listener so that it cannot affect the relay: an error that it throws or rejects with is logged once. */
export function guardEvents(onEvent: ((event: RelayEvent) => void) | undefined, logger: Logger): (event: RelayEvent) => void {
  if (onEvent === undefined) return () => {}
  let logged = false
  const failed = (error: unknown) => {
    if (!logged) logger.error({ err: error }, 'onEvent of the relay failed; the relay continues. Further failures are not logged.')
    logged = true
  }
  return (event) => {
    try {
      // The types cannot exclude an async function, so a rejection is handled too.
      const result: unknown = onEvent(event)
      if (result instanceof Promise) result.catch(failed)
    } catch (error) {
      failed(error)
    }
  }
}

/** A claimed record as passed to hooks. */
export interface RelayRecord {
  /** The id of the record in the store; the id of the message is `message.id`. */
  readonly id: string
  /** The destination's name in the store. */
  readonly destination: string
  readonly message: RawMessage
  /** Including this attempt. */
  readonly attempts: number
  /** Milliseconds since the epoch, by the store's clock. */
  readonly createdAt: number
}

export interface MappedRecord {
  /** The destination's name at the broker: a topic, an exchange, a path. Default: the name in the store. */
  readonly destination?: string | undefined
  /** The message to publish instead; its id must be the same. Default: the stored message. */
  readonly message?: RawMessage | undefined
}

/** Rewrites a record right before it is published. It is called once per attempt, and must be synchronous. */
export type MapRecord = (record: RelayRecord) => MappedRecord | undefined
