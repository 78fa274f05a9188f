import { type Context, enter, type Middleware, middleware } from '@ackord/core'

/** What is used of a `Database` of `@ackord/sql`. */
export interface TransactionalDatabase<Transaction> {
  write<R>(work: (transaction: Transaction, context: Context) => Promise<R>): Promise<R>
  withTransaction(context: Context, transaction: Transaction): Context
}

/** Thrown by nobody else, so that it is known again. */
class RollBack extends Error {}

/** Does the work in a transaction and rolls it back, whatever came of it: a test leaves nothing behind. Gives what the work gave. */
export async function rolledBack<Transaction, R>(
  database: Pick<TransactionalDatabase<Transaction>, 'write'>,
  work: (transaction: Transaction, context: Context) => Promise<R>,
): Promise<R> {
  const end = new RollBack('The test is over.')
  const done: { readonly result: R }[] = []
  try {
    await database.write(async (transaction, context) => {
      done.push({ result: await work(transaction, context) })
      throw end
    })
  } catch (error) {
    if (error !== end) throw error
  }
  const [outcome] = done
  if (outcome === undefined) throw new Error('The transaction ended without an error, and without its work.')
  return outcome.result
}

/**
 * The outermost middleware of a router in a test: its messages are handled inside of this transaction, each in a savepoint, so that all of it can be
 * rolled back. The transaction is one that `write()` or `rolledBack()` began. Acks wait for its end, and so are forgotten with it. A router refuses to
 * start if a transaction, inbox or outbox is outside of it.
 */
export function insideTransaction<Transaction>(
  database: Pick<TransactionalDatabase<Transaction>, 'withTransaction'>,
  transaction: Transaction,
): Middleware {
  return middleware(
    { role: 'enclosingTransaction', resource: database },
    (next) =>
      async function inside(message, context) {
        const entered = database.withTransaction(context, transaction)
        return await enter(entered, () => next(message, entered))
      },
  )
}
