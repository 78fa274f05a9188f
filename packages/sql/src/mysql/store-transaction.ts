import { rootContext } from '@ackord/core'
import type { Driver, RunStatement } from '../contract/driver.ts'
import { isConflict } from './errors.ts'
import { transactionSettings } from './transaction-settings.ts'

/** The default isolation would also lock gaps between rows, and writers would wait for claims. */
const settings = transactionSettings({ isolation: 'read committed' })

const retries = 3

/** A short transaction of the store, without the handler's settings. Retried after a conflict. */
export async function storeTransaction<R>(driver: Driver<unknown>, work: (run: RunStatement) => Promise<R>): Promise<R> {
  return await retryConflicts(() => driver.transaction(settings, ({ run }) => work(run), rootContext().signal))
}

/** Retries work that lost a conflict. */
export async function retryConflicts<R>(work: () => Promise<R>): Promise<R> {
  for (let retry = 1; ; retry += 1) {
    try {
      return await work()
    } catch (error) {
      if (retry > retries || !isConflict(error)) throw error
    }
  }
}
