import { AckordError, InvalidOptionError } from '@ackord/core'
import { changeNow, type Session } from '../driver.ts'
import { CommitUnknownError, TransactionAbortedError } from '../errors.ts'
import { Lane } from '../lane.ts'
import type { OpenSession } from '../open-session.ts'
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

  const send = (sql: string) => sendStatement(wire, connection, { sql })

  async function begin(): Promise<void> {
    begun = true
    try {
      for (const sql of settings) await send(sql)
      const answer = await send('START TRANSACTION')
      if (answer.inTransaction !== true) throw untold(wire)
      if (answer.autocommit === false) throw withoutAutocommit(wire)
    } catch (error) {
      breakOff(error)
      throw explainSetting(error)
    }
  }

  async function resolveDoubt(): Promise<void> {
    const { error } = doubt ?? {}
    const answer = await send('DO 0')
    doubt = undefined
    if (answer.inTransaction !== true) dead = mayRollBack(error) ? new TransactionAbortedError({ cause: error }) : endedByStatement(error)
  }

  /** Runs a statement that must be in the transaction, when nothing else runs. `harmless` errors are known to undo the statement alone. */
  async function within<T>(
    sql: unknown,
    start: () => Promise<T>,
    read: (result: T) => MysqlAnswer,
    harmless: (error: unknown) => boolean = () => false,
  ): Promise<T> {
    if (broken !== undefined) throw broken
    if (dead === undefined && !begun) await begin()
    if (dead === undefined && doubt !== undefined) await resolveDoubt()
    if (dead !== undefined) throw dead
    let result: T
    try {
      result = await start()
    } catch (error) {
      if (endsConnection(error)) breakOff(error)
      if (!harmless(error)) doubt = { error }
      throw error
    }
    const told = read(result).inTransaction
    if (told === false) {
      dead = endedByStatement()
      throw dead
    }
    if (told === undefined && !isRead(sql)) doubt = {}
    return result
  }

  const change: Session<MysqlQueryable>['change'] = async (statement) => {
    const { sql, none = () => false } = statement
    const start = () => sendStatement(wire, connection, statement)
    try {
      return (await lane.run(() => within(sql, start, (answer) => answer, none))).count
    } catch (error) {
      if (none(error)) return 0
      // Others of the same append may be there already, and it is all of them or none.
      dead ??= new TransactionAbortedError({ cause: error })
      throw error
    }
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
    await reset()
  }

  async function rollBack(): Promise<void> {
    if (!begun || broken !== undefined) return
    await lane.run(() => send('ROLLBACK')).catch(breakOff)
    await reset()
  }

  async function reset(): Promise<void> {
    if (broken !== undefined) return
    for (const sql of resetsOf(settings)) await send(sql).catch(breakOff)
  }

  return { session, commit, rollBack, breakOff, broken: () => broken }
}

function endedByStatement(cause?: unknown): AckordError {
  return new AckordError(
    'ACKORD_SCOPE_ENDED',
    'A statement of the handler had ended the transaction before, as DDL does on MySQL: what came before it may be committed.',
    { cause },
  )
}

function untold({ name }: MysqlWire): AckordError {
  return new AckordError(
    'ACKORD_TRANSACTION_REQUIRED',
    `${name} began a transaction, and the connection does not tell that it is in one. What stands between must hand the server's status on.`,
  )
}

/** Our statements outside of transactions would stay uncommitted, and keep their locks. */
function withoutAutocommit({ name }: MysqlWire): InvalidOptionError {
  return new InvalidOptionError(
    `${name}`,
    'was given a pool whose connections have autocommit off. Leave it on: transactions are begun by name.',
  )
}
