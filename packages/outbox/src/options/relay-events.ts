import type { Logger, RawMessage } from '@ackord/core'

/**
 * Why a record is parked. `permanent`: the publisher says that it will never work. `attempts`: it has used them up. `unsettled`: it was claimed
 * too often and never settled. `expired`: its `expirytime` has passed. `unmapped`: `map` failed for it. `behind`: one before it in its key is parked,
 * and `onExhausted` is 'parkKey'.
 */
export type ParkReason = 'permanent' | 'attempts' | 'unsettled' | 'expired' | 'unmapped' | 'behind'

/** What a relay tells of its work. Records have payloads: think before you log one whole. */
export type RelayEvent =
  /** `lost`: settled too late or not at all; somebody else may have published them too. `released`: given back as they were. */
  | { readonly type: 'claimed' | 'published' | 'released' | 'lost'; readonly records: readonly RelayRecord[] }
  | { readonly type: 'failed'; readonly record: RelayRecord; readonly error: unknown; readonly retryAfter: number }
  | {
      readonly type: 'parked'
      readonly record: RelayRecord
      readonly error: unknown
      readonly reason: ParkReason
    }
  | { readonly type: 'destinationDown'; readonly destination: string; readonly error: unknown }
  /** `downFor` milliseconds. */
  | { readonly type: 'destinationUp'; readonly destination: string; readonly downFor: number }
  | { readonly type: 'storeDown'; readonly error: unknown }
  | { readonly type: 'storeUp'; readonly downFor: number }
  /** The dead letter did not take copies of these; they are parked all the same. */
  | { readonly type: 'deadLetterFailed'; readonly records: readonly RelayRecord[]; readonly error: unknown }

/** A listener that decides nothing: what it throws, or rejects with, is logged once. */
export function guardEvents(onEvent: ((event: RelayEvent) => void) | undefined, logger: Logger): (event: RelayEvent) => void {
  if (onEvent === undefined) return () => {}
  let told = false
  const failed = (error: unknown) => {
    if (!told) logger.error({ err: error }, 'onEvent of the relay failed; the relay goes on. Further failures are not logged.')
    told = true
  }
  return (event) => {
    try {
      // An async function is a listener too, as far as the types can tell.
      const result: unknown = onEvent(event)
      if (result instanceof Promise) result.catch(failed)
    } catch (error) {
      failed(error)
    }
  }
}

/** A claimed record as hooks see it. */
export interface RelayRecord {
  /** The store's own; the message's is `message.id`. */
  readonly id: string
  /** Its name in the store. */
  readonly destination: string
  readonly message: RawMessage
  /** This one included. */
  readonly attempts: number
  /** Milliseconds since the epoch, by the store's clock. */
  readonly createdAt: number
}

export interface MappedRecord {
  /** Its name at the broker: a topic, an exchange, a path. Default: the name in the store. */
  readonly destination?: string | undefined
  /** What is published in its place; the id must be the same. Default: as it was stored. */
  readonly message?: RawMessage | undefined
}

/** Rewrites a record right before it is published. It is called once per attempt, and must not wait for anything. */
export type MapRecord = (record: RelayRecord) => MappedRecord | undefined
