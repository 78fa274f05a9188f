import {
  AckordError,
  type Destination,
  jsonMarshaler,
  type Marshaler,
  type Message,
  type Middleware,
  marshal,
  middleware,
  type Runtime,
  systemRuntime,
  TransactionRequiredError,
} from '@ackord/core'
import { ackingOf, checkCount, checkName, checkNoMore, destinationOf, nameOf, outputCompleter } from '@ackord/core/internal'
import { defaultMaxSize } from '@ackord/outbox'
import type { OrderOptions, TableOptions } from '../contract/database-options.ts'
import { type Database, portOf } from '../transaction/database.ts'
import type { OpenTransaction } from '../transaction/open-transaction.ts'
import { recordAppender } from './append-records.ts'

export interface OutboxOptions extends TableOptions, OrderOptions {
  /** Where the relay publishes an output: a fixed destination, or one chosen per output. */
  readonly destination: Destination
  /** Default: JSON. */
  readonly marshaler?: Marshaler | undefined
  /** The destination of outputs that middleware added without one. Default: none, and they are rejected. */
  readonly source?: string | undefined
  /**
   * The maximum bytes of a record: its data, its attributes as JSON and its destination. A larger record fails its message before any of its records
   * is stored. Default: 5 MB.
   */
  readonly maxSize?: number | undefined
  /** Default: `systemRuntime`. */
  readonly runtime?: Runtime | undefined
}

/** Stores the outputs in the transaction of the business writes and returns none; a relay publishes them after the commit. */
export function outboxMiddleware<Handle>(database: Database<Handle>, options: OutboxOptions): Middleware {
  const {
    destination,
    marshaler = jsonMarshaler,
    source,
    maxSize = defaultMaxSize,
    runtime = systemRuntime,
    schema,
    names,
    order,
    ...unknown
  } = options
  checkNoMore('outboxMiddleware()', unknown)
  if (typeof destination !== 'function') checkName('destination', destination)
  checkCount('maxSize', maxSize)
  const port = portOf(database)
  const append = recordAppender(port, { table: port.tables({ schema, names }).outbox, order: port.order(order), maxSize, runtime })
  const complete = outputCompleter(runtime, source)

  /** Stores the outputs of a handled message; `undefined` if there is nothing to wait for. */
  function store(transaction: OpenTransaction<Handle>, outputs: readonly Message[], message: Message): Promise<unknown> | undefined {
    const records = outputs.map((output) => ({ destination: destinationOf(output, destination), message: marshal(output, marshaler) }))
    // The handler has returned; a nested transaction that it did not await may still run, and be rolled back.
    const turns = transaction.own?.turns
    const appending = turns?.busy === true ? turns.run(async () => await append(transaction, records)) : append(transaction, records)
    // The router settles the message itself.
    const others = outputs.filter((output) => ackingOf(output) !== undefined && ackingOf(output) !== ackingOf(message))
    return others.length === 0 ? appending : settleWhenStored(transaction, others, appending)
  }

  return middleware({ role: 'outbox', resource: database }, (next) => {
    // No async/await on the hot path: saves promises per message.
    return function outbox(message, context) {
      // Checked before the handler runs: its side effects could not be undone.
      const transaction = port.find(context)
      if (transaction === undefined) return Promise.reject(new TransactionRequiredError('outboxMiddleware()'))
      return next(message, context).then((outputs) => {
        if (outputs.length === 0) return outputs
        // The router has completed the handler's outputs; middleware in between may have added more.
        const storing = store(transaction, complete(outputs, message, context), message)
        return storing === undefined ? none : storing.then(() => none)
      })
    }
  })
}

const none: readonly Message[] = []

async function settleWhenStored(
  transaction: OpenTransaction<unknown>,
  outputs: readonly Message[],
  appending: Promise<void> | undefined,
): Promise<void> {
  await appending
  for (const output of outputs) await settleWith(transaction, output)
}

/** An output with its own acking came from a source that waits for it to be stored. */
async function settleWith({ own }: OpenTransaction<unknown>, output: Message): Promise<void> {
  if (own === undefined) {
    await output.ack()
    return
  }
  own.scope.afterCommit(async () => {
    await output.ack()
  })
  own.scope.afterRollback(async () => {
    await output.nack(new AckordError('ACKORD_TRANSACTION_ABORTED', `The transaction that was to store ${nameOf(output)} was rolled back.`))
  })
}
