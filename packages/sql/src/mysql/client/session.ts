import { AckordError } from '@ackord/core'
import { confirmNone, type OpenSession, type RunStatement, type Session, type Statement } from '../../contract/driver.ts'
import { Lane } from '../../contract/statement-queue.ts'
import { CommitUnknownError, TransactionAbortedError, TransactionEndedError } from '../../errors.ts'
import { endedByStatement, endsConnection, errorNumberOf, mayRollBack, refusedCommit } from '../errors.ts'
import { rowsOf } from '../inbox.ts'
import { splitScript } from '../sql-text.ts'
import { isRead, keepsTransaction, withoutAutocommit } from '../transaction-control.ts'
import { explainSetting, resetsOf } from '../transaction-settings.ts'
import { type CompoundStatements, commitSql, isStale, refusesCompound, rollbackSql } from './compound-statements.ts'
import { trackedHandle } from './handle.ts'
import { type MysqlAnswer, type MysqlConnection, type MysqlQueryable, type MysqlWire, sendStatement, sizeOf } from './wire.ts'

interface OpenSessionOptions {
  readonly wire: MysqlWire
  readonly settings: readonly string[]
  /** Those of the pool. */
  readonly compounds: CompoundStatements
}

interface Waiting {
  readonly statement: Statement
  readonly explain: (error: unknown) => unknown
}

/** Bytes. What is larger may be more than the server takes, and that should not look like a COMMIT that failed. */
const mostWaiting = 64 * 1024

const mark = 'ackord_statement'
const noSavepoint = 1305

const never = () => false
const itself = (answer: MysqlAnswer) => answer

/**
 * A transaction on a connection. It begins with the first statement.
 *
 * COMMIT does not say whether there was a transaction. One can end before: a deadlock rolls it back, DDL commits it, and what comes after
 * is committed statement by statement. So every answer is looked at, for the server's own word on whether it is in a transaction:
 *
 *     open ─ an answer says that it is in none ──────────────────────▶ dead: nothing more is sent, COMMIT fails
 *     open ─ an error, or an answer that does not tell ─▶ in doubt ─ asked before the next statement ─▶ open, or dead
 *     open ─ a statement of ours fails ─▶ dead ─ ROLLBACK TO SAVEPOINT ─▶ open
 *
 * Where the server takes compound statements, the first one of ours goes with the beginning and the last one with COMMIT: a message takes
 * three round trips instead of five.
 */
export function openSession(connection: MysqlConnection, options: OpenSessionOptions): OpenSession<MysqlQueryable> {
  const { wire, settings, compounds } = options
  const lane = new Lane()
  let begun = false
  /** Goes before whatever comes next. */
  let waiting: Waiting | undefined
  let doubt: { readonly error?: unknown } | undefined
  let dead: AckordError | undefined
  let broken: Error | undefined

  function breakOff(error: unknown): void {
    broken ??= error instanceof Error ? error : new Error(String(error))
  }

  const send = (sql: string) => sendStatement(wire, connection, { sql, givesRows: false })
  const sendChange = ({ parameters, prepare }: Statement, sql: string) =>
    sendStatement(wire, connection, { sql, parameters, prepare, givesRows: false })

  // Promises are chained by hand here: this runs several times per message.

  function begin(): Promise<void> {
    begun = true
    const start = () => send('START TRANSACTION')
    return (settings.length === 0 ? start() : set().then(start)).then(checkBegun, refuse)
  }

  async function set(): Promise<void> {
    for (const sql of settings) await send(sql)
  }

  function checkBegun({ inTransaction, autocommit }: MysqlAnswer): void {
    if (inTransaction !== true) refuse(untold(wire))
    if (autocommit === false) refuse(withoutAutocommit(wire.name))
  }

  /** With a statement of ours, in one. */
  async function beginWith(statement: Statement, rows: number, harmless: (error: unknown) => boolean): Promise<MysqlAnswer> {
    begun = true
    if (settings.length > 0) await set().catch(refuse)
    let answer: MysqlAnswer
    try {
      answer = await sendChange(statement, compounds.first(statement.sql))
    } catch (error) {
      if (isStale(error)) breakOff(error)
      if (!refusesCompound(error)) fail(error, harmless)
      await send('START TRANSACTION').then(checkBegun, refuse)
      answer = await within(statement.sql, () => sendChange(statement, statement.sql), itself, harmless)
      compounds.refuse()
      return answer
    }
    checkBegun(answer)
    return { ...answer, count: rows }
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

  function fail(error: unknown, harmless: (error: unknown) => boolean): never {
    if (endsConnection(error)) breakOff(error)
    if (!harmless(error)) doubt = { error }
    throw error
  }

  /** Runs a statement that must be in the transaction, when nothing else runs. `harmless` errors are known to undo the statement alone. */
  function within<T>(
    sql: unknown,
    start: () => Promise<T>,
    read: (result: T) => MysqlAnswer,
    harmless: (error: unknown) => boolean = never,
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
      return running.then(check, (error: unknown) => fail(error, harmless))
    }

    function check(result: T): T {
      const { inTransaction: told, autocommit } = read(result)
      // It would stay so for whoever is given the connection next.
      if (autocommit === false) refuse(withoutAutocommit(wire.name))
      if (told === false) {
        dead = endedByStatement()
        throw dead
      }
      if (told === undefined && !isRead(sql)) doubt = {}
      return result
    }

    if (broken !== undefined) return Promise.reject(broken)
    if (dead !== undefined) return Promise.reject(dead)
    if (!begun) return begin().then(run)
    return doubt === undefined ? run() : resolveDoubt().then(run)
  }

  /**
   * Runs a statement that may end the transaction, such as CALL, when nothing else runs. The status does not tell whether it has begun another one since; a
   * savepoint from before does.
   */
  async function withinSame<T>(sql: unknown, start: () => Promise<T>, read: (result: T) => MysqlAnswer): Promise<T> {
    await within(undefined, () => send(`SAVEPOINT ${mark}`), itself)
    let result: T
    try {
      result = await within(sql, start, read)
    } catch (error) {
      await checkSame(error)
      throw error
    }
    await checkSame(undefined)
    if (dead !== undefined) throw dead
    return result
  }

  async function checkSame(failure: unknown): Promise<void> {
    if (dead !== undefined || broken !== undefined) return
    try {
      await send(`RELEASE SAVEPOINT ${mark}`)
    } catch (error) {
      if (errorNumberOf(error) !== noSavepoint) breakOff(error)
      else dead = mayRollBack(failure) ? new TransactionAbortedError({ cause: failure }) : endedByStatement(failure)
    }
    doubt = undefined
  }

  /** When nothing else runs. */
  const runNext: RunStatement = (sql, parameters) => within(sql, () => sendStatement(wire, connection, { sql, parameters }), itself)

  /** When nothing else runs. */
  function changeNext(statement: Statement): Promise<number> {
    const { sql, prepare, none = never } = statement
    const rows = rowsOf(statement)
    const begins = !begun && broken === undefined && prepare === true && rows !== undefined && compounds.allowed
    const changing = begins ? beginWith(statement, rows, none) : within(sql, () => sendChange(statement, sql), itself, none)
    return changing.then(
      ({ count }) => count,
      (failed: unknown) =>
        confirmNone(statement, failed, runNext).catch((error: unknown) => {
          // Others of the same append may be there already, and it is all of them or none.
          dead ??= new TransactionAbortedError({ cause: error })
          throw error
        }),
    )
  }

  function changeExplained({ statement, explain }: Waiting): Promise<void> {
    return changeNext(statement).then(
      () => {},
      (error: unknown) => {
        throw explain(error)
      },
    )
  }

  function takeWaiting(): Waiting | undefined {
    const taken = waiting
    waiting = undefined
    return taken
  }

  function mayWait({ sql, parameters = [], prepare }: Statement): boolean {
    if (broken !== undefined || dead !== undefined || doubt !== undefined) return false
    return prepare === true && compounds.allowed && sizeOf(sql, parameters) <= mostWaiting
  }

  /** In its turn, after what waits. */
  function inTurn<T>(start: () => Promise<T>): Promise<T> {
    const before = takeWaiting()
    return lane.run(() => (before === undefined ? start() : changeExplained(before).then(start)))
  }

  const session: Session<MysqlQueryable> = {
    change: (statement) => inTurn(() => changeNext(statement)),
    changeLater(statement, explain) {
      const later = { statement, explain }
      if (!mayWait(statement)) return inTurn(() => changeExplained(later))
      const before = takeWaiting()
      waiting = later
      return before && lane.run(() => changeExplained(before))
    },
    // The drivers send one statement at a time.
    sendsTogether: false,
    run: (sql, parameters) => inTurn(() => runNext(sql, parameters)),
    async script(sql) {
      await inTurn(async () => {
        for (const statement of splitScript(sql)) await send(statement)
        dead = undefined
        doubt = undefined
      })
    },
    ended: () => (dead instanceof TransactionEndedError ? dead : undefined),
    track: (tracker) =>
      trackedHandle(connection, wire.calls, tracker, (sql, start) =>
        inTurn(() => (keepsTransaction(sql) ? within : withinSame)(sql, start, (result) => wire.read(connection, result))),
      ),
  }

  async function commit(): Promise<void> {
    const last = takeWaiting()
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
    if (!begun && last === undefined) return
    await (last === undefined ? end() : begun ? endWith(last) : changeAndEnd(last))
    if (settings.length > 0) await reset()
  }

  async function end(): Promise<void> {
    try {
      await lane.run(() => send(commitSql))
    } catch (error) {
      if (await isUndone(error, { alone: true })) throw error
      throw new CommitUnknownError(error)
    }
  }

  /** With a statement of ours, in one. */
  async function endWith(last: Waiting): Promise<void> {
    const { statement, explain } = last
    try {
      await lane.run(() => sendChange(statement, compounds.last(statement.sql)))
    } catch (error) {
      if (refusesCompound(error)) return await changeAndEnd(last, () => compounds.refuse())
      if (await isUndone(error, { alone: false })) throw explain(error)
      throw new CommitUnknownError(error)
    }
  }

  async function changeAndEnd(last: Waiting, onChanged = () => {}): Promise<void> {
    try {
      await lane.run(() => changeExplained(last))
      onChanged()
    } catch (error) {
      await rollBack()
      throw error
    }
    await end()
  }

  /** Whether it is known that nothing was committed; it is rolled back then. `alone`: COMMIT failed, and not what was before it. */
  async function isUndone(error: unknown, { alone }: { readonly alone: boolean }): Promise<boolean> {
    const undone = refusedCommit(error) || (!alone && (mayRollBack(error) || (isAnswer(error) && (await isOpen()))))
    if (endsConnection(error) || !undone) breakOff(error)
    if (undone) await rollBack()
    if (!alone && isStale(error)) breakOff(error)
    return undone
  }

  /** One that is still open was not committed. */
  async function isOpen(): Promise<boolean> {
    try {
      return (await lane.run(() => send('DO 0'))).inTransaction === true
    } catch {
      return false
    }
  }

  async function rollBack(): Promise<void> {
    waiting = undefined
    if (!begun || broken !== undefined) return
    await lane.run(() => send(rollbackSql)).catch(breakOff)
    await reset()
  }

  async function reset(): Promise<void> {
    for (const sql of resetsOf(settings)) if (broken === undefined) await send(sql).catch(breakOff)
  }

  return { session, commit, rollBack, breakOff, broken: () => broken }
}

/** Whether the server said so, and goes on. */
function isAnswer(error: unknown): boolean {
  return errorNumberOf(error) !== undefined && !endsConnection(error)
}

function untold({ name }: MysqlWire): AckordError {
  return new AckordError(
    'ACKORD_TRANSACTION_REQUIRED',
    `${name} began a transaction, and the connection does not tell that it is in one. What stands between must hand the server's status on.`,
  )
}
