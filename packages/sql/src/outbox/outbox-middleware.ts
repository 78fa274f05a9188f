import { type Middleware, systemRuntime } from '@ackord/core'
import { checkCount, checkName, rejectUnknownOptions } from '@ackord/core/internal'
import { type OutboxOptions as CommonOutboxOptions, createOutboxMiddleware, defaultMaxSize } from '@ackord/outbox'
import { appendTarget, type StorageOptions } from '../contract/database-options.ts'
import type { TableOptions } from '../contract/tables.ts'
import { type Database, portOf } from '../transaction/database.ts'
import type { OpenTransaction } from '../transaction/open-transaction.ts'
import { recordAppender } from './append-records.ts'

export interface OutboxOptions extends CommonOutboxOptions, TableOptions, StorageOptions {
  /**
   * The maximum bytes of a record: its data, its attributes as JSON and its destination. A larger record fails its message before any of its records
   * is stored. Default: 5 MB.
   */
  readonly maxSize?: number | undefined
}

/** Stores the outputs in the transaction of the business writes and returns none; a relay publishes them after the commit. */
export function outboxMiddleware<Handle>(database: Database<Handle>, options: OutboxOptions): Middleware {
  const {
    destination,
    marshaler,
    source,
    maxSize = defaultMaxSize,
    runtime = systemRuntime,
    schema,
    names,
    order,
    mode,
    codecs,
    codecTimeout,
  } = checkOutboxOptions(options)
  const port = portOf(database)
  const storage = port.storage({ order, mode })
  const target = appendTarget(port.tables({ schema, names }), storage)
  const append = recordAppender(port, { target, order: storage.order, maxSize, runtime })

  return createOutboxMiddleware<OpenTransaction<Handle>>(
    database,
    {
      find: port.find,
      append(transaction, records) {
        // The handler has returned; a nested transaction that it did not await may still run, and be rolled back.
        const turns = transaction.own?.turns
        return turns?.busy === true ? turns.run(async () => await append(transaction, records)) : append(transaction, records)
      },
      scopeOf: ({ own }) => own?.scope,
    },
    { destination, marshaler, source, runtime, codecs, codecTimeout },
  )
}

/** Checks what can be checked without a database. */
export function checkOutboxOptions(options: OutboxOptions): OutboxOptions {
  const { destination, marshaler: _m, source: _s, maxSize, runtime: _r, schema: _t, names: _n, ...others } = options
  const { order: _o, mode: _d, codecs: _c, codecTimeout: _l, ...unknown } = others
  rejectUnknownOptions('outboxMiddleware()', unknown)
  if (typeof destination !== 'function') checkName('destination', destination)
  if (maxSize !== undefined) checkCount('maxSize', maxSize)
  return options
}
