import { CommitUnknownError, TransactionAbortedError, TransactionEndedError } from '../errors.ts'
import type { CallbackDialect } from '../orm/callback-driver.ts'
import { refusedCommit, sqlStateOf } from './errors.ts'
import { refuseControl } from './transaction-control.ts'

/** PostgreSQL guards the transaction itself: after an error it rejects every statement until the transaction or a savepoint is rolled back. */
export const callbackDialect: CallbackDialect = {
  refuseControl,
  refusedCommit,
  undoesAlone: false,
  ddlCommits: false,
  isolationOf: () => undefined,
  split: (script) => [script],
  adapt: (run) => run,
  guard: ({ send }) => ({
    async begin(settings) {
      for (const setting of settings) await send(setting)
    },
    run: (_, start) => start(() => {}),
    failTransaction() {},
    restore() {},
    async finish() {
      try {
        // Fails in an aborted transaction, and outside of one.
        await send('SAVEPOINT ackord_last')
      } catch (error) {
        if (sqlStateOf(error) === '25P02') throw new TransactionAbortedError()
        throw sqlStateOf(error) === '25P01' ? new CommitUnknownError(new TransactionEndedError()) : error
      }
    },
    leave: async () => {},
  }),
}
