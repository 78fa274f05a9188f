import { TransactionAbortedError } from '../errors.ts'
import type { CallbackDialect } from '../orm/callback-dialect.ts'
import { refuseControl } from './refuse-control.ts'
import { refusedCommit, sqlStateOf } from './sql-state.ts'

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
        await send('SELECT 1')
      } catch (error) {
        throw sqlStateOf(error) === '25P02' ? new TransactionAbortedError() : error
      }
    },
    leave: async () => {},
  }),
}
