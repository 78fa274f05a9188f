import { AsyncLocalStorage } from 'node:async_hooks'
// biome-ignore lint/style/noRestrictedImports: the order of Node's queues is meant, not time.
import { setImmediate } from 'node:timers/promises'
import { rootContext } from '@ackord/core'
import type { Isolation } from '../contract/dialect.ts'
import {
  confirmNone,
  type Driver,
  type RunStatement,
  runWithoutDeferring,
  type Session,
  type Statement,
  type StatementResult,
} from '../contract/driver.ts'
import { QueryTracker } from '../contract/query-tracker.ts'
import { StatementQueue } from '../contract/statement-queue.ts'
import type { AdmitStatement } from '../contract/statement-traits.ts'
import { type BeginTransaction, callbackTransaction } from './callback-transaction.ts'

/**
 * Runs one statement of the user on a tracked handle, or refuses it. `sql` is its text, if known; if it is only known later, `admit` must be called
 * before it is sent.
 */
export type RunQuery = <T>(sql: unknown, start: (admit: (sql: unknown) => void) => Promise<T>) => Promise<T>

export interface RunTracked extends RunQuery {
  /** Must be awaited before a savepoint that the ORM creates itself. */
  readonly admitSavepoint: QueryTracker['admitSavepoint']
}

/** The adapter of an ORM whose transactions are callbacks. */
export interface CallbackClient<Handle> {
  readonly root: Handle
  readonly begin: BeginTransaction<Handle>
  /** Runs a statement of the library, or several without parameters. Rejects with the server's error, not with the ORM's wrapper. */
  readonly run: RunOn<Handle>
  /** The same transaction, with every statement of the user sent through `run`. */
  track(transaction: Handle, run: RunTracked): Handle
  /** As in `Driver`, for handles other than the root. */
  inTransaction(handle: Handle): boolean | undefined
  /**
   * Whether a statement may start another one before it ends, as an extension of Prisma does. The inner statement bypasses the queue; all others are
   * sent one after the other. Default: false.
   */
  readonly reentrant?: boolean | undefined
  /** The server's error behind the ORM's. Default: the same error. */
  readonly serverError?: ((error: unknown) => unknown) | undefined
}

/**
 * A driver on an ORM. Each statement takes its own round trip. Most ORMs hide the answer to COMMIT, so the last statement in the transaction checks
 * whether it can be committed.
 */
export function callbackDriver<Handle>(client: CallbackClient<Handle>, dialect: CallbackDialect): Driver<Handle> {
  const { root, begin, serverError = (error) => error } = client
  const { refusedCommit } = dialect
  const run = dialect.adapt(client.run)

  const driver: Driver<Handle> = {
    pool: root,
    run,
    inTransaction: (handle) => (handle === root ? false : client.inTransaction(handle)),
    async transaction(settings, work, signal) {
      const isolation = dialect.isolationOf(settings)
      return await callbackTransaction(
        (inside) => begin(inside, isolation),
        async function workIn(transaction: Handle) {
          const running = new QueryTracker()
          const guard = dialect.guard({ send: (sql) => run(transaction, sql, []), serverError })
          const session = sessionOn({ client, dialect, run, transaction, running, guard })
          try {
            await guard.begin(settings)
            const result = await work(session)
            await guard.finish()
            return result
          } catch (error) {
            // Waiting statements must not run after the rollback, when the connection belongs to another transaction.
            await running.drained()
            await guard.leave()
            throw error
          }
        },
        { signal, serverError, refusedCommit },
      )
    },
  }
  if (!dialect.ddlCommits) return driver

  return {
    ...driver,
    async connection(work) {
      return await callbackTransaction(
        begin,
        async function workOn(transaction: Handle) {
          const runOn: RunStatement = (sql, parameters = []) => run(transaction, sql, parameters)
          // No ORM provides a plain connection. Ending the ORM's transaction leaves one.
          await runOn('COMMIT')
          return await work({
            run: runOn,
            async script(sql) {
              for (const statement of dialect.split(sql)) await runOn(statement)
            },
          })
        },
        { signal: rootContext().signal, serverError, refusedCommit },
      )
    },
  }
}

/** The queue of the running statement, for statements that it starts. */
const currentQueue = new AsyncLocalStorage<StatementQueue>()

interface OpenSession<Handle> {
  readonly client: CallbackClient<Handle>
  readonly dialect: CallbackDialect
  readonly run: RunOn<Handle>
  readonly transaction: Handle
  readonly running: QueryTracker
  readonly guard: TransactionGuard
}

function sessionOn<Handle>({ client, dialect, run, transaction, running, guard }: OpenSession<Handle>): Session<Handle> {
  const { refuseControl } = dialect
  const queue = new StatementQueue()
  const inTurn = <T>(start: () => Promise<T>) =>
    running.run(() => {
      if (client.reentrant !== true) return queue.run(start)
      return currentQueue.getStore() === queue ? start() : queue.run(() => currentQueue.run(queue, start))
    })
  const send = ({ sql, parameters = [], none }: Statement) => guard.run(sql, () => run(transaction, sql, parameters), none)

  async function changeNext(statement: Statement): Promise<number> {
    try {
      const failed = (error: unknown) => confirmNone(statement, error, (sql, parameters) => send({ sql, parameters }))
      return await send(statement).then(({ count }) => count, failed)
    } catch (error) {
      guard.failTransaction(error)
      throw error
    }
  }

  const change = (statement: Statement) => inTurn(() => changeNext(statement))

  function runTracked(tracker: QueryTracker): RunTracked {
    const late = { admitSavepoint: () => tracker.admitLateSavepoint(), refuseInGroup: () => tracker.refuseInGroup() }

    function runQuery<T>(sql: unknown, start: (admit: (sql: unknown) => void) => Promise<T>) {
      let query: Promise<T> | undefined
      const followed = tracker.run(() => {
        refuseControl(sql, tracker)
        query = inTurn(() =>
          guard.run(sql, (sending) =>
            start((later) => {
              refuseControl(later, late)
              sending(later)
            }),
          ),
        )
        if (dialect.undoesAlone) query.catch((error: unknown) => reportIfLate(tracker, error))
        return withConsequences(query)
      })
      return query ?? followed
    }

    return Object.assign(runQuery, { admitSavepoint: () => tracker.admitSavepoint() })
  }

  return {
    run: (sql, parameters) => inTurn(() => send({ sql, parameters })),
    change,
    deferStatement: runWithoutDeferring(change),
    supportsPipelining: false,
    script: (sql) =>
      inTurn(async () => {
        for (const statement of dialect.split(sql)) await run(transaction, statement, [])
        guard.restore()
      }),
    track: (tracker) => client.track(transaction, runTracked(tracker)),
  }
}

/** An ORM awaits every query itself and does not show whether its caller does. A query that fails after the work has returned was not awaited. */
function reportIfLate(tracker: QueryTracker, error: unknown): void {
  if (tracker.draining) void tracker.watch(() => Promise.reject(error))
}

/**
 * Settles once all consequences of the answer have run. An ORM passes an answer on through promises of its own, so the next statement of an operation
 * is sent some turns later. Node runs an immediate only when the queues of promises and of `process.nextTick` are empty: a statement that has not
 * been sent by then waits for something other than this answer. The caller of the ORM does not wait for it; only the end of the transaction does.
 */
async function withConsequences<T>(query: Promise<T>): Promise<T> {
  try {
    return await query
  } finally {
    await setImmediate()
  }
}

/** The differences between databases in a transaction that an ORM begins and ends. */
export interface CallbackDialect {
  /** Throws for a statement that would begin or end the transaction behind our back. */
  readonly refuseControl: AdmitStatement
  /** Whether the answer to COMMIT means that nothing was committed. */
  refusedCommit(error: unknown): boolean
  /** Whether a failed statement is undone alone, and the transaction continues. */
  readonly undoesAlone: boolean
  /** Whether DDL ends a transaction, so that the schema is created outside of one. */
  readonly ddlCommits: boolean
  /** The isolation level in the settings that must be requested before BEGIN. */
  isolationOf(settings: readonly string[]): Isolation | undefined
  /** The statements of a script, as they are sent. */
  split(script: string): readonly string[]
  /** Wraps `run` to convert parameters to the form that the database's client accepts. */
  adapt<Handle>(run: RunOn<Handle>): RunOn<Handle>
  guard(options: GuardOptions): TransactionGuard
}

type RunOn<Handle> = (handle: Handle, sql: string, parameters: readonly unknown[]) => Promise<StatementResult>

export interface GuardOptions {
  /** Sends a statement of the library immediately. */
  send(sql: string): Promise<StatementResult>
  /** The server's error behind the ORM's. */
  serverError(error: unknown): unknown
}

/** Guards a transaction whose answers an ORM hides. No other statement is sent while one of its functions is running. */
export interface TransactionGuard {
  /** Called first. Applies the settings, except for the isolation level. */
  begin(settings: readonly string[]): Promise<void>
  /**
   * Runs a statement, or rejects if the transaction is no longer open. `sql` and the argument of `sending` are `undefined` for statements that are
   * known to leave the transaction open. `harmless` errors are known to undo only the statement.
   */
  run<T>(sql: unknown, start: (sending: (sql: unknown) => void) => Promise<T>, harmless?: (error: unknown) => boolean): Promise<T>
  /** A statement of the library failed after related ones may have been applied: the transaction must not be committed. */
  failTransaction(error: unknown): void
  /** The failed statements were undone by a rollback to an earlier savepoint. */
  restore(): void
  /** Called last, before COMMIT. Rejects if COMMIT would not commit everything. */
  finish(): Promise<void>
  /** Called last, before ROLLBACK. Never rejects. */
  leave(): Promise<void>
}
