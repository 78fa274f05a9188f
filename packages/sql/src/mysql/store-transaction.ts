import { rootContext } from '@ackord/core'
import type { Driver, RunStatement } from '../contract/driver.ts'
import { isConflict } from './errors.ts'
import { transactionSettings } from './transaction-settings.ts'

/** The default would lock the gaps between rows too, and whoever inserts would wait for whoever claims. */
const settings = transactionSettings({ isolation: 'read committed' })

const retries = 3

/** A transaction of the store's own, short and without the handler's settings. Run again if it lost against another one. */
export async function storeTransaction<R>(driver: Driver<unknown>, work: (run: RunStatement) => Promise<R>): Promise<R> {
  return await retryConflicts(() => driver.transaction(settings, ({ run }) => work(run), rootContext().signal))
}

/** Runs something again that lost against another one. */
export async function retryConflicts<R>(work: () => Promise<R>): Promise<R> {
  for (let retry = 1; ; retry += 1) {
    try {
      return await work()
    } catch (error) {
      if (retry > retries || !isConflict(error)) throw error
    }
  }
}
