import { type Context, enter, type Middleware, middleware } from '@ackord/core'

/** The methods of a `Database` of `@ackord/sql` that are used. */
export interface TransactionalDatabase<Transaction> {
  write<R>(work: (transaction: Transaction, context: Context) => Promise<R>): Promise<R>
  withTransaction(context: Context, transaction: Transaction): Context
}

/** Private to this module, so that it cannot be confused with an error of the work. */
class RollBack extends Error {}

/** Runs the work in a transaction and always rolls it back, so that a test leaves no data. Resolves to the result of the work. */
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
 * The outermost middleware of a router in a test: its messages are handled inside this transaction, each in a savepoint, so that everything can be
 * rolled back. The transaction must come from `write()` or `rolledBack()`. Acks wait for its end, and so are discarded with it. A router refuses to
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
