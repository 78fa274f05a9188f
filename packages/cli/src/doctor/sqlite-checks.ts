import { constants } from 'node:fs'
import { access } from 'node:fs/promises'
import { dirname } from 'node:path'
import type { SqlStore } from '../stores/store.ts'
import { type Check, check, look } from './check.ts'

export async function sqliteChecks(store: SqlStore): Promise<readonly Check[]> {
  const { file = '' } = store
  return [
    await look('server', async () =>
      check('server', 'ok', `SQLite ${String((await store.query('SELECT sqlite_version() AS version'))[0]?.['version'])}.`),
    ),
    await look('durability', async () => {
      const mode = String((await store.query('PRAGMA journal_mode'))[0]?.['journal_mode'])
      if (mode === 'wal')
        return check('durability', 'ok', 'The file has a write-ahead log, which services write to disk with every commit.')
      const text = `The journal mode is ${mode}: readers and the writer wait for each other. It becomes WAL when a service first opens the file, where the file system can.`
      return check('durability', 'warning', text)
    }),
    await look('privileges', async () => {
      for (const path of [file, dirname(file)]) {
        const writable = await access(path, constants.R_OK | constants.W_OK).then(
          () => true,
          () => false,
        )
        if (!writable)
          return check(
            'privileges',
            'problem',
            `${path} cannot be written to: SQLite needs both the file and its directory. Change its owner or mode.`,
          )
      }
      return check('privileges', 'ok', 'The file and its directory can be written to.')
    }),
  ]
}
