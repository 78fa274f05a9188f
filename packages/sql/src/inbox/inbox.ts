import { AckordError, type Middleware, TransactionRequiredError } from '@ackord/core'
import { rejectUnknownOptions } from '@ackord/core/internal'
import {
  type InboxOptions as CommonInboxOptions,
  createInboxMiddleware,
  type Inbox,
  type InboxFinding,
  type InboxKey,
  type InboxStore,
  openInbox,
} from '@ackord/outbox'
import { explainMissing } from '../contract/dialect.ts'
import type { TableOptions } from '../contract/tables.ts'
import { problemOf } from '../records/text-limits.ts'
import { type Database, portOf } from '../transaction/database.ts'
import type { DatabasePort, OpenTransaction } from '../transaction/open-transaction.ts'

export interface InboxOptions extends CommonInboxOptions, TableOptions {}

export interface SqlInbox extends Inbox {
  /** Where its rows are. */
  readonly table: string
}

/** In bytes; see `maxKeyPartBytes`. */
const maxConsumerBytes = 255

export function openSqlInbox<Handle>(port: DatabasePort<Handle>, options: InboxOptions): SqlInbox {
  const { schema, names } = options
  return { ...checkInboxOptions(options), table: port.tables({ schema, names }).inbox }
}

/** The inbox without its table. Throws if an option is invalid. */
export function checkInboxOptions(options: InboxOptions): Inbox {
  const { schema: _schema, names: _names, consumer, key, onDuplicate, logger, metrics, ...unknown } = options
  rejectUnknownOptions('inboxMiddleware()', unknown)
  const inbox = openInbox({ consumer, key, onDuplicate, logger, metrics }, problemOf)
  const problem = problemOf(consumer, maxConsumerBytes)
  if (problem !== undefined) throw new AckordError('ACKORD_INVALID_OPTION', `consumer ${problem}.`)
  return inbox
}

/**
 * Handles a message once: it is recorded in the transaction of the business writes, so that both are committed or neither. A duplicate is acked and
 * not handled. Outputs require an outbox inside: if they were published after the commit, a crash would lose them.
 */
export function inboxMiddleware<Handle>(database: Database<Handle>, options: InboxOptions): Middleware {
  return inboxAround(database, options, { outputsAreStored: false })
}

/** Like `inboxMiddleware`, around a process that may be known to return no outputs. */
export function inboxAround<Handle>(
  database: Database<Handle>,
  options: InboxOptions,
  { outputsAreStored }: { readonly outputsAreStored: boolean },
): Middleware {
  const port = portOf(database)
  const inbox = openSqlInbox(port, options)
  return createInboxMiddleware({
    inbox,
    store: inboxRows(port, inbox.table),
    info: { role: 'inbox', resource: database },
    outputsAreStored,
  })
}

/** Records messages as rows, in the transaction of their business writes. */
function inboxRows<Handle>({ dialect, find }: DatabasePort<Handle>, table: string): InboxStore {
  const recordOf = dialect.recorder(table)

  const fail = (error: unknown): never => {
    throw explainMissing(dialect, error, table)
  }

  function insert(transaction: OpenTransaction<Handle>, key: InboxKey): number | Promise<number> {
    try {
      return transaction.change(recordOf(key))
    } catch (error) {
      return fail(error)
    }
  }

  return {
    record(_message, context, key) {
      const transaction = find(context)
      if (transaction === undefined) throw new TransactionRequiredError('inboxMiddleware()')
      const inserting = insert(transaction, key)
      return typeof inserting === 'number' ? findingOf(inserting) : inserting.then(findingOf, fail)
    },
  }
}

/** Of the number of inserted rows. */
function findingOf(rows: number): InboxFinding {
  return rows === 1 ? 'new' : 'duplicate'
}
