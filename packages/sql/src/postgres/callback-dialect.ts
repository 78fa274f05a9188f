import { CommitUnknownError, TransactionAbortedError, TransactionEndedError } from '../errors.ts'
import type { CallbackDialect } from '../orm/callback-driver.ts'
import { refusedCommit, sqlStateOf } from './errors.ts'
import { refuseControl } from './transaction-control.ts'

/** PostgreSQL itself keeps watch: after an error it refuses everything until the transaction or a savepoint is rolled back. */
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
    doom() {},
    restore() {},
    async finish() {
      try {
        // It fails in a transaction that is aborted, and outside of one.
        await send('SAVEPOINT ackord_last')
      } catch (error) {
        if (sqlStateOf(error) === '25P02') throw new TransactionAbortedError()
        throw sqlStateOf(error) === '25P01' ? new CommitUnknownError(new TransactionEndedError()) : error
      }
    },
    leave: async () => {},
  }),
}
