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
import { ackingOf, checkName, checkNoMore, destinationOf, nameOf, outputCompleter } from '@ackord/core/internal'
import { recordAppender } from './append-records.ts'
import { type Database, portOf } from './database.ts'
import type { OpenTransaction } from './open-transaction.ts'
import type { TableOptions } from './tables.ts'

export interface OutboxOptions extends TableOptions {
  /** Where the relay will publish an output: always to one place, or as the output says. */
  readonly destination: Destination
  /** Default: JSON. */
  readonly marshaler?: Marshaler | undefined
  /** For outputs that middleware added without one. Default: none, and they are refused. */
  readonly source?: string | undefined
  /** Default: `systemRuntime`. */
  readonly runtime?: Runtime | undefined
}

/** Stores the outputs in the transaction of the business writes and passes none on; a relay publishes them after the commit. */
export function outboxMiddleware<Handle>(database: Database<Handle>, options: OutboxOptions): Middleware {
  const { destination, marshaler = jsonMarshaler, source, runtime = systemRuntime, schema, names, ...unknown } = options
  checkNoMore('outboxMiddleware()', unknown)
  if (typeof destination !== 'function') checkName('destination', destination)
  const port = portOf(database)
  const append = recordAppender(port, port.tables({ schema, names }).outbox)
  const complete = outputCompleter(runtime, source)

  return middleware(
    { role: 'outbox', resource: database },
    (next) =>
      async function outbox(message, context) {
        // Before the handler runs: its side effects could not be taken back.
        const transaction = port.find(context)
        if (transaction === undefined) throw new TransactionRequiredError('outboxMiddleware()')
        const outputs = await next(message, context)
        if (outputs.length === 0) return outputs
        // The router has done so at the handler's return; middleware in between may have added some.
        const completed = complete(outputs, message, context)
        const records = completed.map((output) => ({
          destination: destinationOf(output, destination),
          message: marshal(output, marshaler),
        }))
        const appended = append(transaction, records)
        if (appended !== undefined) await appended
        for (const output of completed) {
          const acking = ackingOf(output)
          // The message itself is the router's to settle.
          if (acking !== undefined && acking !== ackingOf(message)) await settleWith(transaction, output)
        }
        return []
      },
  )
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
