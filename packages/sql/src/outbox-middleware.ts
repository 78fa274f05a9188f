import {
  type Destination,
  jsonMarshaler,
  type Marshaler,
  type Middleware,
  marshal,
  middleware,
  type Runtime,
  systemRuntime,
  TransactionRequiredError,
} from '@ackord/core'
import { checkName, checkNoMore, destinationOf, outputCompleter } from '@ackord/core/internal'
import { appendRecords } from './append-records.ts'
import { type Database, portOf } from './database.ts'
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
  const table = port.tables({ schema, names }).outbox
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
        const records = complete(outputs, message, context).map((output) => ({
          destination: destinationOf(output, destination),
          message: marshal(output, marshaler),
        }))
        await appendRecords(port, transaction, table, records)
        return []
      },
  )
}
