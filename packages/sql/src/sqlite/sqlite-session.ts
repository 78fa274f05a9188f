import { AckordError } from '@ackord/core'
import { changeNow, type Session, type Statement } from '../driver.ts'
import { CommitUnknownError, TransactionAbortedError } from '../errors.ts'
import { inTransaction, type SqliteHandle } from './sqlite-client.ts'
import { sqliteCodeOf } from './sqlite-code.ts'
import type { SqliteConnection } from './sqlite-connection.ts'
import { Iterations, trackedHandle } from './sqlite-handle.ts'
import { type LockWait, unlessLocked } from './while-locked.ts'

/** A transaction that was begun on a connection. */
export interface OpenSession {
  readonly session: Session<SqliteHandle>
  /** If it fails, there may be something left to roll back. Done at once unless the file is locked, and then `undefined`. */
  commit(): Promise<void> | undefined
  /** Never throws. What is done afterwards throws what `reason` gives. */
  rollBack(reason?: () => unknown): void
}

export function openSession(connection: SqliteConnection, wait: LockWait): OpenSession {
  const { client, statements } = connection
  const iterations = new Iterations()
  const borrowed: (() => void)[] = []
  let ended: (() => unknown) | undefined
  let failure: unknown
  let doomed: { readonly error: unknown } | undefined

  /** Some failures, such as a full disk, end the transaction; what came after them would be committed on its own. */
  function checkOpen(): void {
    if (ended !== undefined) throw ended()
    if (!inTransaction(client)) throw new TransactionAbortedError({ cause: failure })
    if (doomed !== undefined) throw new TransactionAbortedError({ cause: doomed.error })
  }

  function guard<T>(use: () => T): T {
    checkOpen()
    try {
      return use()
    } catch (error) {
      failure = error
      throw error
    }
  }

  function end(reason: () => unknown): void {
    ended = reason
    iterations.endAll()
    for (const giveBack of borrowed) giveBack()
  }

  const change = (statement: Statement) => {
    try {
      return guard(() => connection.run(statement).count)
    } catch (error) {
      // Others of the same append may be there already, and it is all of them or none.
      doomed ??= { error }
      throw error
    }
  }
  const session: Session<SqliteHandle> = {
    run: async (sql, parameters = []) => guard(() => connection.run({ sql, parameters })),
    change,
    // In process there is no round trip to be saved.
    changeLater: changeNow(change),
    sendsTogether: false,
    async script(sql) {
      // It undoes what may be there in part.
      const before = doomed
      doomed = undefined
      try {
        guard(() => void client.exec(sql))
      } catch (error) {
        doomed = before
        throw error
      }
    },
    track: (tracker) =>
      trackedHandle(client, {
        guard,
        iterations,
        tracker,
        borrow: (sql) => statements.borrow(sql, (giveBack) => borrowed.push(giveBack)),
      }),
  }

  function commit(): Promise<void> | undefined {
    checkOpen()
    iterations.endAll()
    let committing: void | Promise<void>
    try {
      committing = unlessLocked(commitNow, wait)
    } catch (error) {
      return failed(error)
    }
    return committing instanceof Promise ? committing.catch(failed) : undefined
  }

  /** All at once: an abort may come between two tries, and the connection is another's then. */
  function commitNow(): void {
    if (ended !== undefined) throw ended()
    client.exec('COMMIT')
    connection.isOurs = false
    end(over)
  }

  function failed(error: unknown): never {
    // It was rolled back meanwhile, by an abort.
    if (ended !== undefined) throw error
    const code = sqliteCodeOf(error)
    const known = code === undefined ? inTransaction(client) : code !== 'IOERR'
    // After a failed write the log may hold the commit or not, and who reads the file next decides.
    throw known ? error : new CommitUnknownError(error)
  }

  function rollBack(reason: () => unknown = over): void {
    if (ended !== undefined) return
    end(reason)
    try {
      connection.rollBack()
    } catch {
      // The connection knows, and begins with it the next time.
    }
  }

  return { session, commit, rollBack }
}

function over(): AckordError {
  return new AckordError('ACKORD_SCOPE_ENDED', 'A statement was started after its transaction had ended.')
}
