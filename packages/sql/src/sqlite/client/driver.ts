import { AckordError, type Logger, type Runtime } from '@ackord/core'
import { type Driver, runWithoutDeferring, type Session, type Statement, type StatementResult } from '../../contract/driver.ts'
import { CommitUnknownError, TransactionAbortedError, TransactionEndedError } from '../../errors.ts'
import { sqliteCodeOf } from '../errors.ts'
import { lockTimeoutOf } from '../transaction-control.ts'
import { inTransaction, runStatement, type SqliteClient, type SqliteHandle } from './client.ts'
import type { SqliteConnection, SqliteFile, Turn } from './connection.ts'
import { Iterations, trackedHandle } from './handle.ts'
import { type Interruptible, type LockWait, unlessLocked, whileLocked } from './locks.ts'

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

  // No async/await on the hot path, and promises only where something waits: both run once per message.

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
      // A handler that does not stop must not block the file for all others. No statement of it can be running on the connection at this moment.
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

    // A transaction of the library on the client is not the caller's.
    inTransaction: (handle) => !file.isOurs(handle) && inTransaction(handle as SqliteClient),

    transaction(settings, work, signal) {
      const wait = { runtime, signal, timeout: lockTimeoutOf(settings) ?? lockTimeout }
      const entering = file.enter(wait)
      return entering instanceof Promise ? entering.then((turn) => workIn(turn, work, wait)) : workIn(entering, work, wait)
    },
  }
}

/** A transaction that was begun on a connection. */
interface OpenSession {
  readonly session: Session<SqliteHandle>
  /** If it fails, there may be something left to roll back. Synchronous unless the file is locked, and then `undefined`. */
  commit(): Promise<void> | undefined
  /** Never throws. Later calls throw the error that `reason` returns. */
  rollBack(reason?: () => unknown): void
}

function openSession(connection: SqliteConnection, wait: LockWait): OpenSession {
  const { client, statements } = connection
  const iterations = new Iterations()
  const borrowed: (() => void)[] = []
  let ended: (() => unknown) | undefined
  /** The result of the check during the rollback. */
  let endedBefore: TransactionEndedError | undefined
  let isMarked = true
  let rolledBack: { readonly cause: unknown } | undefined
  let failure: { readonly error: unknown } | undefined

  /** Some failures, such as a full disk, end the transaction; later statements would be committed on their own. */
  function checkOpen(): void {
    if (ended !== undefined) throw ended()
    if (!inTransaction(client)) throw endedByStatementError()
    if (failure !== undefined) throw new TransactionAbortedError({ cause: failure.error })
  }

  function endedByStatementError(): AckordError {
    return rolledBack === undefined ? new TransactionEndedError() : new TransactionAbortedError(rolledBack)
  }

  function isRolledBack(): boolean {
    try {
      return !inTransaction(client)
    } catch {
      // The connection was closed.
      return false
    }
  }

  /** Throws if the transaction is not the one that was begun, although one is open. */
  function checkMark(): void {
    try {
      connection.unmark()
      isMarked = false
    } catch (error) {
      throw new TransactionEndedError({ cause: error })
    }
  }

  /** Whether a statement of the handler has ended the transaction that was begun. Never throws. */
  function endedEarly(): TransactionEndedError | undefined {
    // Already checked, and COMMIT was tried.
    if (!isMarked) return undefined
    try {
      if (!inTransaction(client)) throw endedByStatementError()
      checkMark()
      connection.mark()
      isMarked = true
      return undefined
    } catch (error) {
      return error instanceof TransactionEndedError ? error : undefined
    }
  }

  function guard<T>(use: () => T): T {
    checkOpen()
    try {
      return use()
    } catch (error) {
      if (isRolledBack()) rolledBack ??= { cause: error }
      throw error
    }
  }

  function end(reason: () => unknown): void {
    ended = reason
    iterations.endAll()
    for (const returnStatement of borrowed) returnStatement()
  }

  const change = (statement: Statement) => {
    try {
      return guard(() => connection.run(statement).count)
    } catch (error) {
      // Other statements of the same append may have been applied, and an append must be atomic.
      failure ??= { error }
      throw error
    }
  }
  const session: Session<SqliteHandle> = {
    run: async (sql, parameters = []) => guard(() => connection.run({ sql, parameters })),
    change,
    // In process there is no round trip to save.
    deferStatement: runWithoutDeferring(change),
    supportsPipelining: false,
    ended: () => (ended === undefined ? endedEarly() : endedBefore),
    async script(sql) {
      // Undoes changes that may have been applied in part.
      const before = failure
      failure = undefined
      try {
        guard(() => void client.exec(sql))
      } catch (error) {
        failure = before
        throw error
      }
    },
    track: (tracker) =>
      trackedHandle(client, {
        guard,
        iterations,
        tracker,
        borrow: (sql) => statements.borrow(sql, (returnStatement) => borrowed.push(returnStatement)),
      }),
  }

  function commit(): Promise<void> | undefined {
    if (ended === undefined && !inTransaction(client)) {
      const error = endedByStatementError()
      throw error instanceof TransactionEndedError ? new CommitUnknownError(error) : error
    }
    checkOpen()
    iterations.endAll()
    if (isMarked) {
      try {
        checkMark()
      } catch (error) {
        throw new CommitUnknownError(error)
      }
    }
    let committing: void | Promise<void>
    try {
      committing = unlessLocked(commitNow, wait)
    } catch (error) {
      return failed(error)
    }
    return committing instanceof Promise ? committing.catch(failed) : undefined
  }

  /** In one turn: an abort may come between two attempts, and the connection then belongs to another transaction. */
  function commitNow(): void {
    if (ended !== undefined) throw ended()
    client.exec('COMMIT')
    connection.isOurs = false
    end(over)
  }

  function failed(error: unknown): never {
    // An abort has rolled it back meanwhile.
    if (ended !== undefined) throw error
    const code = sqliteCodeOf(error)
    const known = code === undefined ? inTransaction(client) : code !== 'IOERR'
    // After a failed write the log may or may not contain the commit, and the next reader of the file decides.
    throw known ? error : new CommitUnknownError(error)
  }

  function rollBack(reason: () => unknown = over): void {
    if (ended !== undefined) return
    // An abort may come before the check.
    endedBefore = endedEarly()
    end(reason)
    try {
      connection.rollBack()
    } catch {
      // The connection remembers, and rolls back before it begins again.
    }
  }

  return { session, commit, rollBack }
}

function over(): AckordError {
  return new AckordError('ACKORD_SCOPE_ENDED', 'A statement was started after its transaction had ended.')
}
