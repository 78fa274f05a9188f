import { type Middleware, middleware, type Process, TransactionRequiredError } from '@ackord/core'
import { type Database, portOf } from './database.ts'
import { type InboxOptions, openInbox, withoutOutputs } from './inbox.ts'
import type { InboxKey } from './inbox-key.ts'
import type { OpenTransaction } from './open-transaction.ts'
import { explainMissing } from './schema-missing.ts'

/**
 * Handles a message once: it is recorded in the transaction of the business writes, so that both are there or neither.
 * A duplicate is acked and not handled. Outputs need an outbox inside: handed to a broker after the commit, a crash would lose them.
 */
export function inboxMiddleware<Handle>(database: Database<Handle>, options: InboxOptions): Middleware {
  return inboxAround(database, options, withoutOutputs)
}

/** With what is made of the process inside, where it is known to leave no outputs. */
export function inboxAround<Handle>(
  database: Database<Handle>,
  options: InboxOptions,
  inside: (next: Process) => Process = (next) => next,
): Middleware {
  const port = portOf(database)
  const inbox = openInbox(port, options)
  const { dialect, find } = port
  const recordOf = dialect.recorder(inbox.table)

  const fail = (error: unknown): never => {
    throw explainMissing(dialect, error, inbox.table)
  }

  function record(transaction: OpenTransaction<Handle>, key: InboxKey): number | Promise<number> {
    try {
      return transaction.change(recordOf(key))
    } catch (error) {
      return fail(error)
    }
  }

  return middleware({ role: 'inbox', resource: database }, (next) => {
    const process = inside(next)

    // Chained by hand: it runs once per message, and there need not be anything to wait for.
    return function handleOnce(message, context) {
      try {
        const transaction = find(context)
        if (transaction === undefined) throw new TransactionRequiredError('inboxMiddleware()')
        const key = inbox.keyOf(message)
        const goOn = (count: number) => (count === 1 ? inbox.handle(process, message, context, key) : inbox.skip(message))
        const recording = record(transaction, key)
        return typeof recording === 'number' ? goOn(recording) : recording.then(goOn, fail)
      } catch (error) {
        return Promise.reject(error)
      }
    }
  })
}
