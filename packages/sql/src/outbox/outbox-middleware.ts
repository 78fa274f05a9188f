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
  /** Where the relay will publish an output: always to one place, or as the output says. */
  readonly destination: Destination
  /** Default: JSON. */
  readonly marshaler?: Marshaler | undefined
  /** For outputs that middleware added without one. Default: none, and they are refused. */
  readonly source?: string | undefined
  /** The most bytes of a record: of its data, its attributes as JSON and its destination. A larger one fails its message, before anything of it is stored. Default: 5 MB. */
  readonly maxSize?: number | undefined
  /** Default: `systemRuntime`. */
  readonly runtime?: Runtime | undefined
}

/** Stores the outputs in the transaction of the business writes and passes none on; a relay publishes them after the commit. */
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

  /** Stores what the handling of a message gave; `undefined` where there is nothing to wait for. */
  function store(transaction: OpenTransaction<Handle>, outputs: readonly Message[], message: Message): Promise<unknown> | undefined {
    const records = outputs.map((output) => ({ destination: destinationOf(output, destination), message: marshal(output, marshaler) }))
    // The handler has returned; a nested transaction that it did not wait for may still run, and be rolled back.
    const turns = transaction.own?.turns
    const appending = turns?.busy === true ? turns.run(async () => await append(transaction, records)) : append(transaction, records)
    // The message itself is the router's to settle.
    const others = outputs.filter((output) => ackingOf(output) !== undefined && ackingOf(output) !== ackingOf(message))
    return others.length === 0 ? appending : settleWhenStored(transaction, others, appending)
  }

  return middleware({ role: 'outbox', resource: database }, (next) => {
    // Chained by hand: it runs once per message.
    return function outbox(message, context) {
      // Before the handler runs: its side effects could not be taken back.
      const transaction = port.find(context)
      if (transaction === undefined) return Promise.reject(new TransactionRequiredError('outboxMiddleware()'))
      return next(message, context).then((outputs) => {
        if (outputs.length === 0) return outputs
        // The router has done so at the handler's return; middleware in between may have added some.
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

/** An output with an acking of its own came from somewhere, which waits to hear whether it is stored. */
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
