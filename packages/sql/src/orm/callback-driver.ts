import { AsyncLocalStorage } from 'node:async_hooks'
// biome-ignore lint/style/noRestrictedImports: the order of Node's queues is meant, not time.
import { setImmediate } from 'node:timers/promises'
import { rootContext } from '@ackord/core'
import type { Isolation } from '../contract/dialect.ts'
import {
  changeNow,
  confirmNone,
  type Driver,
  type RunStatement,
  type Session,
  type Statement,
  type StatementResult,
} from '../contract/driver.ts'
import { QueryTracker } from '../contract/query-tracker.ts'
import { Lane } from '../contract/statement-queue.ts'
import type { AdmitStatement } from '../contract/statement-traits.ts'
import { type BeginTransaction, callbackTransaction } from './callback-transaction.ts'

/**
 * Runs one statement of the user's on a tracked handle, or refuses it. `sql` is what it sends, where that is known; where it is only known
 * later, `admit` is told before it is sent.
 */
export type RunQuery = <T>(sql: unknown, start: (admit: (sql: unknown) => void) => Promise<T>) => Promise<T>

export interface RunTracked extends RunQuery {
  /** Comes before a savepoint that the ORM makes by itself, and is to be awaited. */
  readonly admitSavepoint: QueryTracker['admitSavepoint']
}

/** What an adapter knows of an ORM whose transactions are callbacks. */
export interface CallbackClient<Handle> {
  readonly root: Handle
  readonly begin: BeginTransaction<Handle>
  /** Runs a statement of ours, or several without parameters. Rejects with the error of the server, not with one that the ORM wrapped around it. */
  readonly run: RunOn<Handle>
  /** The same transaction, with every statement of the user's sent by `run`. */
  track(transaction: Handle, run: RunTracked): Handle
  /** As `Driver` has it, for what is not the root. */
  inTransaction(handle: Handle): boolean | undefined
  /**
   * Whether a statement may start another one before it ends, as an extension of Prisma does. That one does not wait for its turn; all
   * others are sent one after the other. Default: false.
   */
  readonly reentrant?: boolean | undefined
  /** The error of the server behind that of the ORM. Default: it is the same. */
  readonly serverError?: ((error: unknown) => unknown) | undefined
}

/**
 * A driver on an ORM. Each statement is a round trip of its own. Most ORMs hide what COMMIT answers, so that the last statement in the
 * transaction finds out whether it can be committed.
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
            // What still waits must not come after the roll-back, when the connection is another's.
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
          // No ORM gives a connection alone. Of its transaction, this leaves the connection.
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

/** Whose turn it is, for what a statement starts. */
const turns = new AsyncLocalStorage<Lane>()

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
  const lane = new Lane()
  const inTurn = <T>(start: () => Promise<T>) =>
    running.run(() => {
      if (client.reentrant !== true) return lane.run(start)
      return turns.getStore() === lane ? start() : lane.run(() => turns.run(lane, start))
    })
  const send = ({ sql, parameters = [], none }: Statement) => guard.run(sql, () => run(transaction, sql, parameters), none)

  async function changeNext(statement: Statement): Promise<number> {
    try {
      const failed = (error: unknown) => confirmNone(statement, error, (sql, parameters) => send({ sql, parameters }))
      return await send(statement).then(({ count }) => count, failed)
    } catch (error) {
      guard.doom(error)
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
        if (dialect.undoesAlone) query.catch((error: unknown) => neglectIfLate(tracker, error))
        return withConsequences(query)
      })
      return query ?? followed
    }

    return Object.assign(runQuery, { admitSavepoint: () => tracker.admitSavepoint() })
  }

  return {
    run: (sql, parameters) => inTurn(() => send({ sql, parameters })),
    change,
    changeLater: changeNow(change),
    sendsTogether: false,
    script: (sql) =>
      inTurn(async () => {
        for (const statement of dialect.split(sql)) await run(transaction, statement, [])
        guard.restore()
      }),
    track: (tracker) => client.track(transaction, runTracked(tracker)),
  }
}

/** An ORM awaits every query itself, and does not show whether anybody else does. What fails when the work has returned, nobody awaited. */
function neglectIfLate(tracker: QueryTracker, error: unknown): void {
  if (tracker.draining) void tracker.watch(() => Promise.reject(error))
}

/**
 * Settles once everything that the answer sets off has run. An ORM passes an answer on through promises of its own, so the next statement of
 * an operation is sent some turns later. Node runs an immediate only when the queues of promises and of `process.nextTick` are empty: a
 * statement that has not been sent by then waits for something else than this answer. The caller of the ORM does not wait for it; only the end
 * of the transaction does.
 */
async function withConsequences<T>(query: Promise<T>): Promise<T> {
  try {
    return await query
  } finally {
    await setImmediate()
  }
}

/** What differs between databases in a transaction that an ORM begins and ends. */
export interface CallbackDialect {
  /** Throws at a statement that would begin or end the transaction under our hands. */
  readonly refuseControl: AdmitStatement
  /** Whether the answer to COMMIT means that nothing was committed. */
  refusedCommit(error: unknown): boolean
  /** Whether a statement that fails is undone alone, and the transaction goes on. */
  readonly undoesAlone: boolean
  /** Whether DDL ends a transaction, so that the schema is made outside of one. */
  readonly ddlCommits: boolean
  /** Of the settings, the isolation that must be asked for before BEGIN. */
  isolationOf(settings: readonly string[]): Isolation | undefined
  /** The statements of a script of ours, as they are sent. */
  split(script: string): readonly string[]
  /** The same function for statements of ours, with parameters as the database's client takes them. */
  adapt<Handle>(run: RunOn<Handle>): RunOn<Handle>
  guard(options: GuardOptions): TransactionGuard
}

type RunOn<Handle> = (handle: Handle, sql: string, parameters: readonly unknown[]) => Promise<StatementResult>

export interface GuardOptions {
  /** Sends a statement of ours at once. */
  send(sql: string): Promise<StatementResult>
  /** The error of the server behind that of the ORM. */
  serverError(error: unknown): unknown
}

/** Watches over a transaction whose answers an ORM keeps for itself. Nothing else is sent while one of its functions runs. */
export interface TransactionGuard {
  /** Comes first. Carries the settings out, except for the isolation. */
  begin(settings: readonly string[]): Promise<void>
  /**
   * Runs a statement, or rejects if it would not be in the transaction any more. `sql` and what `sending` is told are `undefined` for what
   * is known to leave the transaction open. `harmless` errors are known to undo the statement alone.
   */
  run<T>(sql: unknown, start: (sending: (sql: unknown) => void) => Promise<T>, harmless?: (error: unknown) => boolean): Promise<T>
  /** A statement of ours failed, and others that belong to it may be there already: it is all of them or none. */
  doom(error: unknown): void
  /** What failed was undone: a savepoint from before is there again. */
  restore(): void
  /** Comes last, before COMMIT. Rejects if that would not commit the whole. */
  finish(): Promise<void>
  /** Comes last, before ROLLBACK. Never rejects. */
  leave(): Promise<void>
}
