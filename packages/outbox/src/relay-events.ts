import type { Logger } from '@ackord/core'
import type { RelayRecord } from './relay-record.ts'
import type { ParkReason } from './verdict.ts'

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
