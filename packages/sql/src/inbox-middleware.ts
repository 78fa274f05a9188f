import { type Middleware, middleware, TransactionRequiredError } from '@ackord/core'
import { type Database, portOf } from './database.ts'
import { type InboxOptions, openInbox } from './inbox.ts'
import { explainMissing } from './schema-missing.ts'

/**
 * Handles a message once: it is recorded in the transaction of the business writes, so that both are there or neither.
 * A duplicate is acked and not handled. Outputs need an outbox inside: handed to a broker after the commit, a crash would lose them.
 */
export function inboxMiddleware<Handle>(database: Database<Handle>, options: InboxOptions): Middleware {
  const port = portOf(database)
  const inbox = openInbox(port, options)
  const { dialect, find } = port
  const recordOf = dialect.recorder(inbox.table)

  return middleware({ role: 'inbox', resource: database }, (next) => {
    return async function handleOnce(message, context) {
      const transaction = find(context)
      if (transaction === undefined) throw new TransactionRequiredError('inboxMiddleware()')
      const key = inbox.keyOf(message)
      let count: number
      try {
        count = await transaction.change(recordOf(key))
      } catch (error) {
        throw explainMissing(dialect, error, inbox.table)
      }
      return count === 1 ? inbox.handle(next, message, context, key) : inbox.skip(message)
    }
  })
}
