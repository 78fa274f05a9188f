import { InvalidOptionError, type Logger, type Runtime } from '@ackord/core'
import { withTimeLimit } from '@ackord/core/internal'
import type { ClaimOptions, OutboxStore } from '../store/outbox-store.ts'

/** With order per key: what happens to the records behind a parked record. */
export type OnExhausted = 'park' | 'block' | 'parkKey'

/** The `behindParked` that a relay passes to its store, so that the rule also applies to records that are committed later. */
export const behindParked: Readonly<Record<OnExhausted, ClaimOptions['behindParked']>> = { park: 'given', block: 'kept', parkKey: 'marked' }

const leaveTimeout = 2000

export function checkOnExhausted(value: OnExhausted): OnExhausted {
  if (Object.hasOwn(behindParked, value)) return value
  throw new InvalidOptionError('onExhausted', `must be 'park', 'block' or 'parkKey'; it is ${String(value)}.`)
}

/** A store without order per key cannot hold records back. */
export function checkOrder(store: OutboxStore, onExhausted: OnExhausted): void {
  if (onExhausted === 'park' || isOrdered(store)) return
  throw new InvalidOptionError('onExhausted', `'${onExhausted}' requires a store with order 'perKey'; this store keeps no order.`)
}

export function isOrdered(store: OutboxStore): boolean {
  return store.capabilities?.order === 'perKey'
}

/** Milliseconds that a reader may pause between two claims: with order per key, claims also renew the ownership of its partitions. */
export function maxPause(store: OutboxStore, lease: number): number {
  return isOrdered(store) ? lease / 3 : Infinity
}

/**
 * Milliseconds between renewals of the claimed records. With order per key, renewals also keep the partitions: the more often they happen, the longer
 * the process may pause.
 */
export function renewalInterval(store: OutboxStore, lease: number): number {
  return isOrdered(store) ? lease / 10 : lease / 3
}

export interface LeaveOptions {
  readonly runtime: Runtime
  readonly logger: Logger
  /** Milliseconds that the store gets, if fewer than usual. */
  readonly limit?: number | undefined
}

/** Hands the partitions of the store object over to the other relays immediately. Without it they wait for the lease to expire. Never rejects. */
export async function leaveStore(store: OutboxStore, options: LeaveOptions): Promise<void> {
  const { runtime, logger, limit: given = leaveTimeout } = options
  const limit = Math.min(given, leaveTimeout)
  if (!isOrdered(store) || store.leave === undefined) return
  const leave = () => store.leave?.() ?? Promise.resolve()
  try {
    await withTimeLimit(runtime, limit, () => new Error(`leave() took longer than ${Math.round(limit)} ms.`), leave)
  } catch (error) {
    logger.debug({ err: error }, 'The relay could not hand over its partitions; other relays take them over when its lease expires.')
  }
}
