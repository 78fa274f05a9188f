import { InvalidOptionError, type Logger, type Runtime } from '@ackord/core'
import type { ClaimOptions, OutboxStore } from '../store/outbox-store.ts'
import { withTimeLimit } from './time-limit.ts'

/** What becomes of those behind a record that is parked, with order per key. */
export type OnExhausted = 'park' | 'block' | 'parkKey'

/** What a relay asks its store for, so that this is kept also for records that are committed later. */
export const behindParked: Readonly<Record<OnExhausted, ClaimOptions['behindParked']>> = { park: 'given', block: 'kept', parkKey: 'marked' }

const leaveTimeout = 2000

export function checkOnExhausted(value: OnExhausted): OnExhausted {
  if (Object.hasOwn(behindParked, value)) return value
  throw new InvalidOptionError('onExhausted', `must be 'park', 'block' or 'parkKey'; it is ${String(value)}.`)
}

/** A store that keeps no order cannot hold anything up. */
export function checkOrder(store: OutboxStore, onExhausted: OnExhausted): void {
  if (onExhausted === 'park' || isOrdered(store)) return
  throw new InvalidOptionError('onExhausted', `'${onExhausted}' needs a store with order 'perKey'; this one keeps no order.`)
}

export function isOrdered(store: OutboxStore): boolean {
  return store.capabilities?.order === 'perKey'
}

/** Milliseconds that a reader may pause between two claims: in key order they are also what keeps its partitions. */
export function longestPause(store: OutboxStore, lease: number): number {
  return isOrdered(store) ? lease / 3 : Infinity
}

/** Milliseconds between renewals of what is in hand. In key order they also keep the partitions: the more often, the longer a pause of the process may be. */
export function renewalInterval(store: OutboxStore, lease: number): number {
  return isOrdered(store) ? lease / 10 : lease / 3
}

/** What the store object owns goes to the others at once. Only a courtesy: without it they wait for a lease. Never rejects. */
export async function leaveStore(store: OutboxStore, options: { readonly runtime: Runtime; readonly logger: Logger }): Promise<void> {
  const { runtime, logger } = options
  if (!isOrdered(store) || store.leave === undefined) return
  const leave = () => store.leave?.() ?? Promise.resolve()
  try {
    await withTimeLimit(runtime, leaveTimeout, () => new Error(`It took longer than ${leaveTimeout} ms.`), leave)
  } catch (error) {
    logger.debug({ err: error }, 'The relay could not hand over its partitions; others get them when its lease is over.')
  }
}
