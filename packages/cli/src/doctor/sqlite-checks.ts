import { constants } from 'node:fs'
import { access } from 'node:fs/promises'
import { dirname } from 'node:path'
import type { SqlStore } from '../stores/store.ts'
import { type Check, check, runCheck } from './check.ts'

export async function sqliteChecks(store: SqlStore): Promise<readonly Check[]> {
  const { file = '' } = store
  return [
    await runCheck('server', async () =>
      check('server', 'ok', `SQLite ${String((await store.query('SELECT sqlite_version() AS version'))[0]?.['version'])}.`),
    ),
    await runCheck('durability', async () => {
      const mode = String((await store.query('PRAGMA journal_mode'))[0]?.['journal_mode'])
      if (mode === 'wal')
        return check('durability', 'ok', 'The file uses a write-ahead log, which services sync to disk with every commit.')
      const text = `The journal mode is ${mode}: readers and the writer block each other. A service switches to WAL when it first opens the file, if the file system supports it.`
      return check('durability', 'warning', text)
    }),
    await runCheck('privileges', async () => {
      for (const path of [file, dirname(file)]) {
        const writable = await access(path, constants.R_OK | constants.W_OK).then(
          () => true,
          () => false,
        )
        if (!writable)
          return check(
            'privileges',
            'problem',
            `${path} is not writable: SQLite needs write access to both the file and its directory. Change the owner or mode.`,
          )
      }
      return check('privileges', 'ok', 'The file and its directory are writable.')
    }),
  ]
}
