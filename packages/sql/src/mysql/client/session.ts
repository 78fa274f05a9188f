import { AckordError } from '@ackord/core'
import { confirmNone, type OpenSession, type RunStatement, type Session, type Statement } from '../../contract/driver.ts'
import { StatementQueue } from '../../contract/statement-queue.ts'
import { CommitUnknownError, TransactionAbortedError, TransactionEndedError } from '../../errors.ts'
import { endedByStatement, endsConnection, errorNumberOf, mayRollBack, refusedCommit } from '../errors.ts'
import { rowsOf } from '../inbox.ts'
import { splitScript } from '../sql-text.ts'
import { explainSetting, isRead, keepsTransaction, resetsOf, withoutAutocommit } from '../transaction-control.ts'
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

/** Bytes. A larger statement may exceed the server's limit, and that should not look like a failed COMMIT. */
const maxWaitingBytes = 64 * 1024

const mark = 'ackord_statement'
const noSavepoint = 1305

const never = () => false
const itself = (answer: MysqlAnswer) => answer

/**
 * A transaction on a connection. It begins with the first statement.
 *
 * COMMIT does not report whether there was a transaction. A transaction can end before: a deadlock rolls it back, DDL commits it, and later
 * statements are committed one by one. So every answer is checked for the server's own status flag:
 *
 *     open ─ an answer says that no transaction is open ─────────────▶ unusable: nothing more is sent, COMMIT fails
 *     open ─ an error, or an answer without a status ─▶ in doubt ─ queried before the next statement ─▶ open, or unusable
 *     open ─ a statement of the library fails ─▶ unusable ─ ROLLBACK TO SAVEPOINT ─▶ open
 *
 * Where the server supports compound statements, the first statement of the library is combined with START TRANSACTION and the last one with COMMIT:
 * a message takes three round trips instead of five.
 */
export function openSession(connection: MysqlConnection, options: OpenSessionOptions): OpenSession<MysqlQueryable> {
  const { wire, settings, compounds } = options
  const queue = new StatementQueue()
  let begun = false
  /** Sent before the next statement. */
  let waiting: Waiting | undefined
  let doubt: { readonly error?: unknown } | undefined
  let unusable: AckordError | undefined
  let broken: Error | undefined

  function markBroken(error: unknown): void {
    broken ??= error instanceof Error ? error : new Error(String(error))
  }

  const send = (sql: string) => sendStatement(wire, connection, { sql, returnsRows: false })
  const sendChange = ({ parameters, prepare }: Statement, sql: string) =>
    sendStatement(wire, connection, { sql, parameters, prepare, returnsRows: false })

  // No async/await below, on the hot path: saves promises several times per message.

  function begin(): Promise<void> {
    begun = true
    const start = () => send('START TRANSACTION')
    return (settings.length === 0 ? start() : set().then(start)).then(checkBegun, refuse)
  }

  async function set(): Promise<void> {
    for (const sql of settings) await send(sql)
  }

  function checkBegun({ inTransaction, autocommit }: MysqlAnswer): void {
    if (inTransaction !== true) refuse(statusNotReported(wire))
    if (autocommit === false) refuse(withoutAutocommit(wire.name))
  }

  /** Combined with a statement of the library. */
  async function beginWith(statement: Statement, rows: number, harmless: (error: unknown) => boolean): Promise<MysqlAnswer> {
    begun = true
    if (settings.length > 0) await set().catch(refuse)
    let answer: MysqlAnswer
    try {
      answer = await sendChange(statement, compounds.first(statement.sql))
    } catch (error) {
      if (isStale(error)) markBroken(error)
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
    markBroken(error)
    throw explainSetting(error)
  }

  async function resolveDoubt(): Promise<void> {
    const { error } = doubt ?? {}
    const answer = await send('DO 0')
    doubt = undefined
    if (answer.inTransaction !== true)
      unusable = mayRollBack(error) ? new TransactionAbortedError({ cause: error }) : endedByStatement(error)
  }

  function fail(error: unknown, harmless: (error: unknown) => boolean): never {
    if (endsConnection(error)) markBroken(error)
    if (!harmless(error)) doubt = { error }
    throw error
  }

  /** Runs a statement that must be in the transaction, while nothing else is running. `harmless` errors are known to undo only the statement. */
  function within<T>(
    sql: unknown,
    start: () => Promise<T>,
    read: (result: T) => MysqlAnswer,
    harmless: (error: unknown) => boolean = never,
  ): Promise<T> {
    function run(): Promise<T> {
      if (unusable !== undefined) return Promise.reject(unusable)
      let running: Promise<T>
      try {
        running = start()
      } catch (error) {
        // The driver rejects some calls by throwing.
        running = Promise.reject(error)
      }
      return running.then(check, (error: unknown) => fail(error, harmless))
    }

    function check(result: T): T {
      const { inTransaction: isInTransaction, autocommit } = read(result)
      // The next user of the connection would inherit it.
      if (autocommit === false) refuse(withoutAutocommit(wire.name))
      if (isInTransaction === false) {
        unusable = endedByStatement()
        throw unusable
      }
      if (isInTransaction === undefined && !isRead(sql)) doubt = {}
      return result
    }

    if (broken !== undefined) return Promise.reject(broken)
    if (unusable !== undefined) return Promise.reject(unusable)
    if (!begun) return begin().then(run)
    return doubt === undefined ? run() : resolveDoubt().then(run)
  }

  /**
   * Runs a statement that may end the transaction, such as CALL, while nothing else is running. The status does not tell whether the statement began
   * another transaction; a savepoint set before does.
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
    if (unusable !== undefined) throw unusable
    return result
  }

  async function checkSame(failure: unknown): Promise<void> {
    if (unusable !== undefined || broken !== undefined) return
    try {
      await send(`RELEASE SAVEPOINT ${mark}`)
    } catch (error) {
      if (errorNumberOf(error) !== noSavepoint) markBroken(error)
      else unusable = mayRollBack(failure) ? new TransactionAbortedError({ cause: failure }) : endedByStatement(failure)
    }
    doubt = undefined
  }

  /** Only while nothing else is running. */
  const runNext: RunStatement = (sql, parameters) => within(sql, () => sendStatement(wire, connection, { sql, parameters }), itself)

  /** Only while nothing else is running. */
  function changeNext(statement: Statement): Promise<number> {
    const { sql, prepare, none = never } = statement
    const rows = rowsOf(statement)
    const begins = !begun && broken === undefined && prepare === true && rows !== undefined && compounds.allowed
    const changing = begins ? beginWith(statement, rows, none) : within(sql, () => sendChange(statement, sql), itself, none)
    return changing.then(
      ({ count }) => count,
      (failed: unknown) =>
        confirmNone(statement, failed, runNext).catch((error: unknown) => {
          // Other statements of the same append may have been applied, and an append must be atomic.
          unusable ??= new TransactionAbortedError({ cause: error })
          throw error
        }),
    )
  }

  function runExplained({ statement, explain }: Waiting): Promise<void> {
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
    if (broken !== undefined || unusable !== undefined || doubt !== undefined) return false
    return prepare === true && compounds.allowed && sizeOf(sql, parameters) <= maxWaitingBytes
  }

  /** In its turn, after the deferred statement. */
  function inTurn<T>(start: () => Promise<T>): Promise<T> {
    const before = takeWaiting()
    return queue.run(() => (before === undefined ? start() : runExplained(before).then(start)))
  }

  const session: Session<MysqlQueryable> = {
    change: (statement) => inTurn(() => changeNext(statement)),
    deferStatement(statement, explain) {
      const later = { statement, explain }
      if (!mayWait(statement)) return inTurn(() => runExplained(later))
      const before = takeWaiting()
      waiting = later
      return before && queue.run(() => runExplained(before))
    },
    // The drivers send one statement at a time.
    supportsPipelining: false,
    run: (sql, parameters) => inTurn(() => runNext(sql, parameters)),
    async script(sql) {
      await inTurn(async () => {
        for (const statement of splitScript(sql)) await send(statement)
        unusable = undefined
        doubt = undefined
      })
    },
    ended: () => (unusable instanceof TransactionEndedError ? unusable : undefined),
    track: (tracker) =>
      trackedHandle(connection, wire.calls, tracker, (sql, start) =>
        inTurn(() => (keepsTransaction(sql) ? within : withinSame)(sql, start, (result) => wire.read(connection, result))),
      ),
  }

  async function commit(): Promise<void> {
    const last = takeWaiting()
    if (broken === undefined && unusable === undefined && doubt !== undefined) await queue.run(resolveDoubt).catch(markBroken)
    if (unusable instanceof TransactionAbortedError) {
      await rollBack()
      throw unusable
    }
    if (unusable !== undefined) {
      markBroken(unusable)
      throw new CommitUnknownError(unusable)
    }
    // COMMIT was not sent yet, and the server rolls back the open transaction of a closed connection.
    if (broken !== undefined) throw broken
    // No statement was sent in it.
    if (!begun && last === undefined) return
    await (last === undefined ? end() : begun ? endWith(last) : changeAndEnd(last))
    if (settings.length > 0) await reset()
  }

  async function end(): Promise<void> {
    try {
      await queue.run(() => send(commitSql))
    } catch (error) {
      if (await isUndone(error, { alone: true })) throw error
      throw new CommitUnknownError(error)
    }
  }

  /** Combined with a statement of the library. */
  async function endWith(last: Waiting): Promise<void> {
    const { statement, explain } = last
    try {
      await queue.run(() => sendChange(statement, compounds.last(statement.sql)))
    } catch (error) {
      if (refusesCompound(error)) return await changeAndEnd(last, () => compounds.refuse())
      if (await isUndone(error, { alone: false })) throw explain(error)
      throw new CommitUnknownError(error)
    }
  }

  async function changeAndEnd(last: Waiting, onChanged = () => {}): Promise<void> {
    try {
      await queue.run(() => runExplained(last))
      onChanged()
    } catch (error) {
      await rollBack()
      throw error
    }
    await end()
  }

  /**
   * Whether it is known that nothing was committed; the transaction is then rolled back. `alone`: COMMIT itself failed, not the statement before it.
   */
  async function isUndone(error: unknown, { alone }: { readonly alone: boolean }): Promise<boolean> {
    const undone = refusedCommit(error) || (!alone && (mayRollBack(error) || (isAnswer(error) && (await isOpen()))))
    if (endsConnection(error) || !undone) markBroken(error)
    if (undone) await rollBack()
    if (!alone && isStale(error)) markBroken(error)
    return undone
  }

  /** A transaction that is still open was not committed. */
  async function isOpen(): Promise<boolean> {
    try {
      return (await queue.run(() => send('DO 0'))).inTransaction === true
    } catch {
      return false
    }
  }

  async function rollBack(): Promise<void> {
    waiting = undefined
    if (!begun || broken !== undefined) return
    await queue.run(() => send(rollbackSql)).catch(markBroken)
    await reset()
  }

  async function reset(): Promise<void> {
    for (const sql of resetsOf(settings)) if (broken === undefined) await send(sql).catch(markBroken)
  }

  return { session, commit, rollBack, markBroken, broken: () => broken }
}

/** Whether the error is an answer of the server, which keeps the connection open. */
function isAnswer(error: unknown): boolean {
  return errorNumberOf(error) !== undefined && !endsConnection(error)
}

function statusNotReported({ name }: MysqlWire): AckordError {
  return new AckordError(
    'ACKORD_TRANSACTION_REQUIRED',
    `${name} began a transaction, but the connection does not report that it is in one. A proxy in between must pass on the server's status flags.`,
  )
}
