import {
  AckordError,
  type Context,
  type ContextKey,
  contextKey,
  currentContext,
  type Destination,
  deterministicIds,
  enter,
  jsonMarshaler,
  type Message,
  type Middleware,
  marshal,
  middleware,
  outputIdsKey,
  probe,
  type Runtime,
  rootContext,
  silentLogger,
  TransactionScope,
  transactionScopeKey,
} from '@ackord/core'
import { destinationOf } from '@ackord/core/internal'
import { MemoryOutboxStore, type MemoryTransaction } from '@ackord/outbox'
import { MemoryChanges, MemoryRecords, type MemoryTable } from './memory-changes.ts'

export interface MemoryStoreOptions {
  /** Default: `systemRuntime`. */
  readonly runtime?: Runtime | undefined
}

export interface MemoryTransactionalOptions {
  /** Names this reader, so that two consumers may each handle a message once. */
  readonly consumer: string
  /** Where the relay will publish an output. */
  readonly destination: Destination
}

/** A transaction of a `MemoryStore`. */
export interface MemoryStoreTransaction extends MemoryTable {
  /** For `outbox.append()` and `assertPublished()`. */
  readonly events: MemoryTransaction
}

interface Opened {
  readonly handle: MemoryStoreTransaction
  readonly changes: MemoryChanges
  readonly scope: TransactionScope
}

/**
 * A database in memory for users' tests: a table of keys and values, an inbox and an outbox that commit together. It has the methods of a `Database` that
 * handlers and their adapters use. Transactions run side by side; one that read what another has changed since fails when it commits, and is to be retried.
 */
export class MemoryStore {
  readonly outbox: MemoryOutboxStore
  readonly #records = new MemoryRecords()
  readonly #key: ContextKey<Opened> = contextKey('ackord.testkit.memoryStore', { callScoped: true })
  readonly #handles = new WeakMap<MemoryStoreTransaction, Opened>()

  constructor(options: MemoryStoreOptions = {}) {
    this.outbox = new MemoryOutboxStore({ runtime: options.runtime })
  }

  /** The transaction that this context is in; `undefined` outside of one. `context` defaults to the ambient one. */
  transaction(context: Context | undefined = currentContext()): MemoryStoreTransaction | undefined {
    return context?.get(this.#key)?.handle
  }

  /** The transaction inside of one; elsewhere the table itself, where each write is for good. */
  executor(context: Context | undefined = currentContext()): MemoryTable {
    return this.transaction(context) ?? this.#records
  }

  withTransaction(context: Context, transaction: MemoryStoreTransaction): Context {
    const opened = this.#handles.get(transaction)
    if (opened === undefined)
      throw new AckordError('ACKORD_TRANSACTION_REQUIRED', 'withTransaction() takes what write() of this store gave.')
    return context.with(this.#key, opened)
  }

  /** Does the work in a transaction; inside of one, in a part of it that is undone alone. */
  async write<R>(work: (transaction: MemoryStoreTransaction, context: Context) => Promise<R>): Promise<R> {
    return await this.#run(undefined, currentContext() ?? rootContext(), (opened, context) => work(opened.handle, context))
  }

  /** Transaction, inbox and outbox for a router. */
  transactional(options: MemoryTransactionalOptions): Middleware {
    const { consumer, destination } = options
    return middleware(
      { role: 'transaction', resource: this },
      (next) => (message, context) =>
        this.#run(message, context, async ({ handle, changes }, inside) => {
          const { source = '', id } = message
          if (id === undefined || id === '') {
            throw new AckordError('ACKORD_MISSING_ATTRIBUTE', 'The inbox cannot recognise a message without an id.', { retryable: false })
          }
          if (!changes.recordOnce(JSON.stringify([consumer, source, id]))) {
            await message.ack()
            return []
          }
          await probe('inbox.recorded')
          const known = inside.with(outputIdsKey, deterministicIds(consumer, source, id))
          const outputs = await enter(known, () => next(message, known))
          const records = outputs.map((output) => ({
            destination: destinationOf(output, destination),
            message: marshal(output, jsonMarshaler),
          }))
          await this.outbox.append(handle.events, records)
          if (records.length > 0) await probe('outbox.appended')
          return []
        }),
    )
  }

  async #run<R>(message: Message | undefined, context: Context, work: (opened: Opened, context: Context) => Promise<R>): Promise<R> {
    const outer = context.get(this.#key)
    return outer === undefined ? await this.#begin(message, context, work) : await nest(outer, message, context, work)
  }

  async #begin<R>(message: Message | undefined, context: Context, work: (opened: Opened, context: Context) => Promise<R>): Promise<R> {
    const changes = new MemoryChanges(this.#records)
    const events = this.outbox.begin()
    const scope = new TransactionScope(context, { logger: silentLogger })
    const opened: Opened = { handle: Object.assign(changes.table, { events }), changes, scope }
    this.#handles.set(opened.handle, opened)
    let result: R
    try {
      await probe('transaction.begun')
      if (message !== undefined) scope.hold(message)
      const inside = context.with(this.#key, opened).with(transactionScopeKey, scope)
      result = await enter(inside, () => work(opened, inside))
      context.signal.throwIfAborted()
      if (scope.rollbackOnly !== undefined) throw scope.rollbackOnly.error
      await probe('transaction.beforeCommit')
      changes.commit()
      events.commit()
    } catch (error) {
      changes.end()
      events.rollback()
      await scope.end('rolledBack')
      throw error
    }
    await probe('transaction.afterCommit')
    await scope.end('committed')
    return result
  }
}

async function nest<R>(
  { handle, changes, scope: outer }: Opened,
  message: Message | undefined,
  context: Context,
  work: (opened: Opened, context: Context) => Promise<R>,
): Promise<R> {
  const scope = outer.nested(context)
  const undo = changes.savepoint()
  const savepoint = handle.events.savepoint()
  try {
    if (message !== undefined) scope.hold(message)
    const inside = context.with(transactionScopeKey, scope)
    const result = await enter(inside, () => work({ handle, changes, scope }, inside))
    if (scope.rollbackOnly !== undefined) throw scope.rollbackOnly.error
    await scope.end('committed')
    return result
  } catch (error) {
    undo()
    handle.events.rollbackTo(savepoint)
    await scope.end('rolledBack')
    throw error
  }
}
