import { AckordError } from '@ackord/core'
import { changeNow, type Session } from '../driver.ts'
import { CommitUnknownError, TransactionAbortedError } from '../errors.ts'
import { Lane } from '../lane.ts'
import type { OpenSession } from '../open-session.ts'
import { withoutAutocommit } from './autocommit.ts'
import { endedByStatement } from './ended-by-statement.ts'
import { endsConnection, mayRollBack, refusedCommit } from './mysql-error.ts'
import { trackedHandle } from './mysql-handle.ts'
import type { MysqlAnswer, MysqlConnection, MysqlQueryable, MysqlWire } from './mysql-wire.ts'
import { isRead } from './refuse-control.ts'
import { sendStatement } from './send-statement.ts'
import { splitScript } from './split-script.ts'
import { explainSetting, resetsOf } from './transaction-settings.ts'

/**
 * A transaction on a connection. It begins with the first statement.
 *
 * COMMIT does not say whether there was a transaction. One can end before: a deadlock rolls it back, DDL commits it, and what comes after
 * is committed statement by statement. So every answer is looked at, for the server's own word on whether it is in a transaction:
 *
 *     open ─ an answer says that it is in none ──────────────────────▶ dead: nothing more is sent, COMMIT fails
 *     open ─ an error, or an answer that does not tell ─▶ in doubt ─ asked before the next statement ─▶ open, or dead
 *     open ─ a statement of ours fails ─▶ dead ─ ROLLBACK TO SAVEPOINT ─▶ open
 */
export function openSession(connection: MysqlConnection, wire: MysqlWire, settings: readonly string[]): OpenSession<MysqlQueryable> {
  const lane = new Lane()
  let begun = false
  let doubt: { readonly error?: unknown } | undefined
  let dead: AckordError | undefined
  let broken: Error | undefined

  function breakOff(error: unknown): void {
    broken ??= error instanceof Error ? error : new Error(String(error))
  }

  const send = (sql: string) => sendStatement(wire, connection, { sql, givesRows: false })

  // Promises are chained by hand here: this runs several times per message.

  function begin(): Promise<void> {
    begun = true
    const start = () => send('START TRANSACTION')
    return (settings.length === 0 ? start() : set().then(start)).then(
      (answer) => {
        if (answer.inTransaction !== true) refuse(untold(wire))
        if (answer.autocommit === false) refuse(withoutAutocommit(wire.name))
      },
      (error: unknown) => refuse(error),
    )
  }

  async function set(): Promise<void> {
    for (const sql of settings) await send(sql)
  }

  function refuse(error: unknown): never {
    breakOff(error)
    throw explainSetting(error)
  }

  async function resolveDoubt(): Promise<void> {
    const { error } = doubt ?? {}
    const answer = await send('DO 0')
    doubt = undefined
    if (answer.inTransaction !== true) dead = mayRollBack(error) ? new TransactionAbortedError({ cause: error }) : endedByStatement(error)
  }

  /** Runs a statement that must be in the transaction, when nothing else runs. `harmless` errors are known to undo the statement alone. */
  function within<T>(
    sql: unknown,
    start: () => Promise<T>,
    read: (result: T) => MysqlAnswer,
    harmless: (error: unknown) => boolean = () => false,
  ): Promise<T> {
    function run(): Promise<T> {
      if (dead !== undefined) return Promise.reject(dead)
      let running: Promise<T>
      try {
        running = start()
      } catch (error) {
        // The driver refuses some calls by throwing.
        running = Promise.reject(error)
      }
      return running.then(check, fail)
    }

    function check(result: T): T {
      const told = read(result).inTransaction
      if (told === false) {
        dead = endedByStatement()
        throw dead
      }
      if (told === undefined && !isRead(sql)) doubt = {}
      return result
    }

    function fail(error: unknown): never {
      if (endsConnection(error)) breakOff(error)
      if (!harmless(error)) doubt = { error }
      throw error
    }

    if (broken !== undefined) return Promise.reject(broken)
    if (dead !== undefined) return Promise.reject(dead)
    if (!begun) return begin().then(run)
    return doubt === undefined ? run() : resolveDoubt().then(run)
  }

  const change: Session<MysqlQueryable>['change'] = (statement) => {
    const { sql, parameters, prepare, none = () => false } = statement
    const start = () => sendStatement(wire, connection, { sql, parameters, prepare, givesRows: false })
    return lane
      .run(() => within(sql, start, (answer) => answer, none))
      .then(
        ({ count }) => count,
        (error: unknown) => {
          if (none(error)) return 0
          // Others of the same append may be there already, and it is all of them or none.
          dead ??= new TransactionAbortedError({ cause: error })
          throw error
        },
      )
  }

  const session: Session<MysqlQueryable> = {
    change,
    // The drivers send one statement at a time, so nothing would be saved.
    changeLater: changeNow(change),
    sendsTogether: false,
    run(sql, parameters = []) {
      const start = () => sendStatement(wire, connection, { sql, parameters })
      return lane.run(() => within(sql, start, (answer) => answer))
    },
    async script(sql) {
      await lane.run(async () => {
        for (const statement of splitScript(sql)) await send(statement)
        dead = undefined
        doubt = undefined
      })
    },
    track: (tracker) =>
      trackedHandle(connection, wire.calls, tracker, (sql, start) =>
        lane.run(() => within(sql, start, (result) => wire.read(connection, result))),
      ),
  }

  async function commit(): Promise<void> {
    if (broken === undefined && dead === undefined && doubt !== undefined) await lane.run(resolveDoubt).catch(breakOff)
    if (dead instanceof TransactionAbortedError) {
      await rollBack()
      throw dead
    }
    if (dead !== undefined) {
      breakOff(dead)
      throw new CommitUnknownError(dead)
    }
    // The server rolls back what is open on a connection that ends, and COMMIT was not sent yet.
    if (broken !== undefined) throw broken
    // Nothing was done in it.
    if (!begun) return
    try {
      await lane.run(() => send('COMMIT'))
    } catch (error) {
      if (refusedCommit(error)) {
        await rollBack()
        throw error
      }
      breakOff(error)
      throw new CommitUnknownError(error)
    }
    if (settings.length > 0) await reset()
  }

  async function rollBack(): Promise<void> {
    if (!begun || broken !== undefined) return
    await lane.run(() => send('ROLLBACK')).catch(breakOff)
    await reset()
  }

  async function reset(): Promise<void> {
    for (const sql of resetsOf(settings)) if (broken === undefined) await send(sql).catch(breakOff)
  }

  return { session, commit, rollBack, breakOff, broken: () => broken }
}

function untold({ name }: MysqlWire): AckordError {
  return new AckordError(
    'ACKORD_TRANSACTION_REQUIRED',
    `${name} began a transaction, and the connection does not tell that it is in one. What stands between must hand the server's status on.`,
  )
}
