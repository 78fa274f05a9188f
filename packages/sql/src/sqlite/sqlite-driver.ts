import type { Logger, Runtime } from '@ackord/core'
import type { Driver, Session, StatementResult } from '../driver.ts'
import { inTransaction, runStatement, type SqliteClient, type SqliteHandle } from './sqlite-client.ts'
import type { SqliteConnection } from './sqlite-connection.ts'
import type { SqliteFile, Turn } from './sqlite-file.ts'
import { openSession } from './sqlite-session.ts'
import { lockTimeoutOf } from './transaction-settings.ts'
import { type LockWait, unlessLocked, whileLocked } from './while-locked.ts'
import type { Interruptible } from './writer-mutex.ts'

export interface SqliteDriverOptions {
  readonly logger: Logger
  readonly runtime: Runtime
  readonly lockTimeout: number
}

type Work<R> = (session: Session<SqliteHandle>) => Promise<R>

type TransactionWait = LockWait & { readonly signal: AbortSignal }

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

  // Chained by hand, with promises only where something waits: both run once per message.

  function workIn<R>(turn: Turn, work: Work<R>, wait: TransactionWait): Promise<R> {
    try {
      wait.signal.throwIfAborted()
      const beginning = unlessLocked(() => connection.begin(logger), wait)
      if (!(beginning instanceof Promise)) return workInside(turn, work, wait)
      return beginning.then(
        () => workInside(turn, work, wait),
        (error: unknown) => {
          turn.end()
          throw error
        },
      )
    } catch (error) {
      turn.end()
      return Promise.reject(error)
    }
  }

  function workInside<R>(turn: Turn, work: Work<R>, wait: TransactionWait): Promise<R> {
    const { signal } = wait
    const opened = openSession(connection, wait)

    const running: Interruptible = {
      signal,
      // A handler that does not stop must not keep the file from all others. Nothing of it can be running on the connection right now.
      onAbort() {
        opened.rollBack(() => signal.reason)
        turn.end()
      },
    }

    function end(): void {
      opened.rollBack()
      file.mutex.unwatch(running)
      turn.end()
    }

    function fail(error: unknown): never {
      end()
      throw error
    }

    function commit(result: R): R | Promise<R> {
      let committing: Promise<void> | undefined
      try {
        committing = opened.commit()
      } catch (error) {
        return fail(error)
      }
      const finish = () => {
        end()
        return result
      }
      return committing === undefined ? finish() : committing.then(finish, fail)
    }

    file.mutex.watch(running)
    try {
      return turn.inside(() => work(opened.session)).then(commit, fail)
    } catch (error) {
      end()
      return Promise.reject(error)
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

    transaction(settings, work, signal) {
      const wait = { runtime, signal, timeout: lockTimeoutOf(settings) ?? lockTimeout }
      const entering = file.enter(wait)
      return entering instanceof Promise ? entering.then((turn) => workIn(turn, work, wait)) : workIn(entering, work, wait)
    },
  }
}
