import { silentLogger } from '@ackord/core'
import { type Database, sqlOutbox } from '@ackord/sql'
import { fromPg } from '@ackord/sql/postgres'
import pg from 'pg'
import { tableOptions } from '../../src/stores/sql-store.ts'
import { record } from './services.ts'

/** A writing service in log mode, on the tables with this prefix. */
export interface LogWriter extends AsyncDisposable {
  readonly database: Database<unknown>
  append(destination: string, ...ids: readonly string[]): Promise<void>
}

export function openLogWriter(url: string, prefix: string): LogWriter {
  const pool = new pg.Pool({ connectionString: url, max: 2 })
  const database = fromPg(pool, { ...tableOptions({ prefix }), mode: 'log', logger: silentLogger }) as Database<unknown>
  const outbox = sqlOutbox(database, { logger: silentLogger })
  return {
    database,
    append: (destination, ...ids) =>
      database.write((transaction) =>
        outbox.append(
          transaction,
          ids.map((id) => record(destination, id)),
        ),
      ),
    [Symbol.asyncDispose]: () => pool.end(),
  }
}
