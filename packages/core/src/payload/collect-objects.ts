import { checkCount, checkDuration, checkFunction, rejectUnknownOptions } from '../options.ts'
import { type Runtime, systemRuntime } from '../ports/runtime.ts'
import { endOfClaimKey } from './claim-key.ts'
import type { ObjectStore } from './object-store.ts'

export interface CollectObjectsOptions {
  readonly store: ObjectStore
  /**
   * Deletes objects that were stored longer ago than this, in milliseconds; an hour or more. Objects are deleted by whole hours, so an object may be an hour older than this when it is deleted.
   * The age must be longer than any message may wait to be read: the time in the outbox, retention of the queue, retries, the time in the dead letter, and the retention of topics that are
   * read again. A message whose object is gone is rejected with `ACKORD_PAYLOAD_MISSING`.
   */
  readonly olderThan: number
  /** Only objects whose keys begin so, such as `orders/`. Default: all. */
  readonly keyPrefix?: string | undefined
  /** The number of objects that are deleted in one call. Default: 1,000. */
  readonly batchSize?: number | undefined
  /** Ends the collection before the next batch. Default: none. */
  readonly signal?: AbortSignal | undefined
  /** Default: `systemRuntime`. */
  readonly runtime?: Runtime | undefined
}

/** An object that cannot be deleted, such as one that is locked, must not keep the others. A store that is down must not be asked for every batch. */
const maxFailures = 10

/**
 * Deletes the objects of `claimCheck()` by age, those of transactions that were rolled back included. It recognises them by their names, and deletes nothing else in the bucket or
 * directory. Run it daily. Idempotent, and safe to run concurrently: after an error, the next call goes on. Resolves to the number of objects that it deleted. If the store fails to
 * delete some, the others are deleted, and the call rejects with an `AggregateError` at the end.
 */
export async function collectObjects(options: CollectObjectsOptions): Promise<number> {
  const { store, olderThan, keyPrefix = '', batchSize = 1000, signal, runtime = systemRuntime, ...unknown } = options
  rejectUnknownOptions('collectObjects()', unknown)
  checkFunction('store.list', store?.list)
  checkFunction('store.delete', store?.delete)
  // A number of seconds, or a zero, would delete the objects of messages that are on their way.
  checkDuration('olderThan', olderThan, { min: 3_600_000 })
  checkCount('batchSize', batchSize)
  const failures: unknown[] = []
  let deleted = 0
  let batch: string[] = []
  const deleteBatch = async () => {
    const keys = batch
    batch = []
    if (keys.length === 0) return
    try {
      await store.delete(keys)
      deleted += keys.length
    } catch (error) {
      failures.push(error)
      if (failures.length === maxFailures) throw notDeleted(failures, deleted, ' The rest was not tried.')
    }
  }
  // biome-ignore lint/plugin: stores have the instants of their objects by the wall clock.
  const limit = new Date(Math.max(0, runtime.now() - olderThan))
  for await (const { key, storedAt } of store.list({ olderThan: limit })) {
    if (signal?.aborted === true) return deleted
    // Data would be lost if a store listed too much.
    if (!(storedAt < limit) || !key.startsWith(keyPrefix)) continue
    // Until the hour of its key has ended, an object may be stored again after it was listed and before it is deleted.
    const end = endOfClaimKey(key)
    if (end === undefined || end > limit.getTime()) continue
    batch.push(key)
    if (batch.length >= batchSize) await deleteBatch()
  }
  if (signal?.aborted !== true) await deleteBatch()
  if (failures.length > 0) throw notDeleted(failures, deleted, '')
  return deleted
}

function notDeleted(failures: readonly unknown[], deleted: number, rest: string): AggregateError {
  const batches = `${failures.length} ${failures.length === 1 ? 'batch' : 'batches'}`
  return new AggregateError(failures, `The object store failed to delete ${batches} of objects; ${deleted} objects were deleted.${rest}`)
}
