import { changeNow, type Driver, type Session, type Statement, type StatementResult } from '../driver.ts'
import { TransactionAbortedError } from '../errors.ts'
import { Lane } from '../lane.ts'
import { QueryTracker } from '../query-tracker.ts'
import { type BeginTransaction, callbackTransaction } from './callback-transaction.ts'
import { refuseControl } from './refuse-control.ts'
import { sqlStateOf } from './sql-state.ts'

/** Runs one statement of the user's on a tracked handle, or refuses it. `sql` is what it sends, where that is known. */
export type RunTracked = <T>(sql: unknown, start: () => Promise<T>) => Promise<T>

/** What an adapter knows of an ORM whose transactions are callbacks. */
export interface CallbackClient<Handle> {
  readonly root: Handle
  readonly begin: BeginTransaction<Handle>
  /** Runs a statement of ours, or several without parameters. Rejects with the error of the server, not with one that the ORM wrapped around it. */
  run(handle: Handle, sql: string, parameters: readonly unknown[]): Promise<StatementResult>
  /** The same transaction, with every statement of the user's sent by `run`. */
  track(transaction: Handle, run: RunTracked): Handle
  /** As `Driver` has it, for what is not the root. */
  inTransaction(handle: Handle): boolean | undefined
  /**
   * Whether a statement may start another one before it ends, as an extension of Prisma does. It then keeps a queue of its own; elsewhere
   * one statement is sent after the other. Default: false.
   */
  readonly reentrant?: boolean | undefined
  /** The error of the server behind that of the ORM. Default: it is the same. */
  readonly serverError?: ((error: unknown) => unknown) | undefined
}

/**
 * A driver on an ORM. Each statement is a round trip of its own. Most ORMs hide what COMMIT answers, so that the last statement in the
 * transaction finds out whether it can be committed.
 */
export function callbackDriver<Handle>(client: CallbackClient<Handle>): Driver<Handle> {
  const { root, begin, serverError } = client
  return {
    pool: root,
    run: (handle, sql, parameters) => client.run(handle, sql, parameters),
    inTransaction: (handle) => (handle === root ? false : client.inTransaction(handle)),
    async transaction(settings, work, signal) {
      return await callbackTransaction(
        begin,
        async function workIn(transaction: Handle) {
          const running = new QueryTracker()
          const session = sessionOn(client, transaction, running)
          try {
            for (const setting of settings) await session.run(setting)
            const result = await work(session)
            await checkNotAborted(session)
            return result
          } catch (error) {
            // What still waits must not come after the roll-back, when the connection is another's.
            await running.drained()
            throw error
          }
        },
        { signal, serverError },
      )
    },
  }
}

function sessionOn<Handle>(client: CallbackClient<Handle>, transaction: Handle, running: QueryTracker): Session<Handle> {
  const lane = new Lane()
  const send = <T>(start: () => Promise<T>) => running.run(() => (client.reentrant === true ? start() : lane.run(start)))
  const run = ({ sql, parameters = [] }: Statement) => send(() => client.run(transaction, sql, parameters))
  const change = async (statement: Statement) => (await run(statement)).count
  return {
    run: (sql, parameters) => run({ sql, parameters }),
    change,
    changeLater: changeNow(change),
    sendsTogether: false,
    async script(sql) {
      await run({ sql })
    },
    track: (tracker) =>
      client.track(transaction, function runTracked(sql, start) {
        let query: ReturnType<typeof start> | undefined
        const followed = tracker.run(() => {
          refuseControl(sql)
          query = send(start)
          return lingering(query)
        })
        return query ?? followed
      }),
  }
}

/** An ORM hands a result on through promises of its own: who waits for it, and sends the next statement, comes some turns later. */
async function lingering<T>(query: Promise<T>): Promise<T> {
  try {
    return await query
  } finally {
    for (let turn = 0; turn < 50; turn += 1) await undefined
  }
}

async function checkNotAborted({ run }: Session<unknown>): Promise<void> {
  try {
    await run('SELECT 1')
  } catch (error) {
    throw sqlStateOf(error) === '25P02' ? new TransactionAbortedError() : error
  }
}
