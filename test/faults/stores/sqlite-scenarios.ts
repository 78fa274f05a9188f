import type { Scenario } from '@ackord/testkit/suites'
import { FaultRun } from '../fault-run.ts'
import { checkHappened } from '../wire.ts'
import type { SqliteStore } from './sqlite-store.ts'

/** The faults that apply to a file: it has no connection to cut and no server to restart. */
export const sqliteScenarios: readonly Scenario<() => Promise<SqliteStore>>[] = [
  {
    name: 'a stranger has the lock of the file, and frees it',
    async run(open) {
      await using store = await open()
      await using run = new FaultRun(store)
      await run.send(8)
      await run.outcome.untilDone()
      const before = (await store.observe()).applied.length
      const free = store.lock()
      await run.send(60)
      await run.outcome.until(() => run.failures('ACKORD_DATABASE_BUSY') > 0)
      const { applied } = await store.observe()
      free()
      checkHappened('nothing was applied while it was locked', applied.length === before ? 1 : 0, 1)
      return await run.finish(0)
    },
  },
]
