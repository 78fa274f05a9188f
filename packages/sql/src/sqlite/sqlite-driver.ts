import type { Logger, Runtime } from '@ackord/core'
import type { Driver, StatementResult } from '../driver.ts'
import { inTransaction, runStatement, type SqliteClient, type SqliteHandle } from './sqlite-client.ts'
import type { SqliteConnection } from './sqlite-connection.ts'
import type { SqliteFile } from './sqlite-file.ts'
import { openSession } from './sqlite-session.ts'
import { lockTimeoutOf } from './transaction-settings.ts'
import { unlessLocked, whileLocked } from './while-locked.ts'

export interface SqliteDriverOptions {
  readonly logger: Logger
  readonly runtime: Runtime
  readonly lockTimeout: number
}

export function sqliteDriver(file: SqliteFile, connection: SqliteConnection, options: SqliteDriverOptions): Driver<SqliteHandle> {
  const { logger, runtime, lockTimeout } = options

  /** A statement that is a transaction of its own, when its turn has come. */
  async function runAlone(sql: string, parameters: readonly unknown[]): Promise<StatementResult> {
    const wait = { runtime, timeout: lockTimeout }
    const turn = await file.enter(wait)
    try {
      return await whileLocked(() => {
        connection.checkFree(logger)
        return connection.run({ sql, parameters })
      }, wait)
    } finally {
      turn.end()
    }
  }

  return {
    pool: file.pool,

    async run(handle, sql, parameters) {
      if (handle !== file.pool) return runStatement(handle.prepare(sql), parameters)
      if (file.reader !== undefined && sql.startsWith('SELECT ')) return runStatement(file.reader.prepare(sql), parameters)
      return await runAlone(sql, parameters)
    },

    // A transaction of ours on the client is not the caller's.
    inTransaction: (handle) => !file.isOurs(handle) && inTransaction(handle as SqliteClient),

    async transaction(settings, work, signal) {
      const wait = { runtime, signal, timeout: lockTimeoutOf(settings) ?? lockTimeout }
      // Promises only where something waits: this runs once per message.
      const entering = file.enter(wait)
      const turn = entering instanceof Promise ? await entering : entering
      try {
        const beginning = unlessLocked(() => connection.begin(logger), wait)
        if (beginning instanceof Promise) await beginning
      } catch (error) {
        turn.end()
        throw error
      }
      const opened = openSession(connection, wait)
      // A handler that does not stop must not keep the file from all others. Nothing of it can be running on the connection right now.
      const onAbort = () => {
        opened.rollBack(() => signal.reason)
        turn.end()
      }
      signal.addEventListener('abort', onAbort, { once: true })
      try {
        const result = await turn.inside(() => work(opened.session))
        const committing = opened.commit()
        if (committing !== undefined) await committing
        return result
      } finally {
        opened.rollBack()
        signal.removeEventListener('abort', onAbort)
        turn.end()
      }
    },
  }
}
