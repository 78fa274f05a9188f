import { existsSync } from 'node:fs'
import { resolve } from 'node:path'
import type { Logger } from '@ackord/core'
import type { Row } from '@ackord/sql'
import { fromSqlite } from '@ackord/sql/sqlite'
import { DatabaseSync } from '@photostructure/sqlite'
import { CommandError, exitCode, usageError } from '../output/errors.ts'
import type { ServiceUrl } from '../settings/urls.ts'
import { sqlStore, tableOptions } from './sql-store.ts'
import type { SqlStore, StoreLocation } from './store.ts'

export interface SqliteChoices {
  /** Whether a missing file is created. Otherwise a path with a typo would be an empty database. */
  readonly create: boolean
  /** Whether the file is opened at all. */
  readonly connect: boolean
  readonly logger: Logger
}

export function openSqlite({ text, address }: ServiceUrl, location: StoreLocation, choices: SqliteChoices): SqlStore {
  const { logger } = choices
  const tables = tableOptions(location)
  const file = choices.connect ? fileOf(text, choices) : ':memory:'
  const client = new DatabaseSync(file)
  const reader = new DatabaseSync(file)
  const database = fromSqlite(client, { ...tables, reader, logger })
  return sqlStore(
    database,
    {
      kind: 'sqlite',
      address,
      file,
      async run(handle, sql, parameters) {
        // Numbers, strings and bytes: the command binds nothing else. Rows are objects unless the client is configured for arrays.
        return handle.prepare(sql).all(...(parameters as string[])) as Row[]
      },
      async define(sql) {
        await database.write(async (transaction) => transaction.exec(sql))
      },
      quote: (name) => `"${name.replaceAll('"', '""')}"`,
      async close() {
        reader.close()
        client.close()
      },
    },
    location,
  )
}

function fileOf(url: string, { create }: SqliteChoices): string {
  const file = sqlitePath(url)
  if (create || existsSync(file)) return file
  const hint = 'Check the path; `ackord migrate up` creates a new one.'
  throw new CommandError(`The file ${file} does not exist.`, { exitCode: exitCode.unreachable, hint })
}

/** The path of `sqlite:orders.db`, `sqlite:/var/lib/orders.db` or `sqlite:///var/lib/orders.db`. */
export function sqlitePath(url: string): string {
  const path = url
    .trim()
    .slice('sqlite:'.length)
    .replace(/^\/\/(?=\/)/, '')
  if (path !== '' && !path.startsWith(':memory:') && !path.startsWith('//')) return resolve(path)
  throw usageError('The SQLite URL has no path.', 'Use sqlite:orders.db or sqlite:/var/lib/orders.db')
}
