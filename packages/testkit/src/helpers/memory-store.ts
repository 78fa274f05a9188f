import {
  AckordError,
  type Context,
  type ContextKey,
  compose,
  contextKey,
  currentContext,
  type Destination,
  enter,
  type Message,
  type Middleware,
  middleware,
  type Runtime,
  rootContext,
  silentLogger,
  TransactionRequiredError,
} from '@ackord/core'
import { probe, rejectUnknownOptions, TransactionScope, transactionScopeKey } from '@ackord/core/internal'
import {
  createInboxMiddleware,
  createOutboxMiddleware,
  type InboxAdmin,
  type InboxFinding,
  type InboxKey,
  MemoryOutboxStore,
  type MemoryTransaction,
  type NewEventOptions,
  type NewOutboxRecord,
  openInbox,
} from '@ackord/outbox'
import { inboxKeyText, MemoryInbox } from './memory-inbox.ts'

export interface MemoryStoreOptions extends NewEventOptions {
  /** Default: `systemRuntime`. */
  readonly runtime?: Runtime | undefined
}

export interface MemoryTransactionalOptions {
  /** The name of the consumer. Two consumers may each handle a message once. */
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
  /** The latest nested transaction. Nested transactions run one after another. */
  turn?: Promise<unknown> | undefined
}

/**
 * An in-memory database for the tests of services: a table of keys and values, an inbox and an outbox that commit together. It has the methods of a `Database` that
 * handlers and their adapters use. Transactions run concurrently; a transaction that has read data which another one has changed since fails at its commit and must be retried.
 */
export class MemoryStore {
  readonly outbox: MemoryOutboxStore
  /** For operators: which messages were handled. */
  readonly inbox: InboxAdmin
  readonly #records: MemoryRecords
  readonly #key: ContextKey<Opened> = contextKey('ackord.testkit.memoryStore', { callScoped: true })
  readonly #handles = new WeakMap<MemoryStoreTransaction, Opened>()

  constructor(options: MemoryStoreOptions = {}) {
    const { runtime, source, destination, marshaler, codecs, codecTimeout } = options
    this.outbox = new MemoryOutboxStore({ runtime, source, destination, marshaler, codecs, codecTimeout })
    this.#records = new MemoryRecords(new MemoryInbox(runtime))
    this.inbox = this.#records.inbox
  }

  /** The transaction of this context, or `undefined`. `context` defaults to the ambient one. */
  transaction(context: Context | undefined = currentContext()): MemoryStoreTransaction | undefined {
    return context?.get(this.#key)?.handle
  }

  /** The transaction of this context; outside of transactions the table itself, where each write takes effect immediately. */
  executor(context: Context | undefined = currentContext()): MemoryTable {
    return this.transaction(context) ?? this.#records
  }

  withTransaction(context: Context, transaction: MemoryStoreTransaction): Context {
    const opened = this.#handles.get(transaction)
    if (opened === undefined)
      throw new AckordError('ACKORD_TRANSACTION_REQUIRED', 'withTransaction() requires a transaction of write() of this store.')
    // A context inside a nested transaction stays there.
    return context.get(this.#key)?.handle === transaction ? context : context.with(this.#key, opened)
  }

  /** Runs the work in a transaction; inside of one, in a nested transaction that can be rolled back alone. */
  async write<R>(work: (transaction: MemoryStoreTransaction, context: Context) => Promise<R>): Promise<R> {
    return await this.#run(undefined, currentContext() ?? rootContext(), (opened, context) => work(opened.handle, context))
  }

  /** The transaction alone, for handlers that need neither inbox nor outbox. */
  transactionMiddleware(): Middleware {
    return middleware({ role: 'transaction', resource: this }, (next) => (message, context) => {
      return this.#run(message, context, (_opened, inside) => next(message, inside))
    })
  }

  /** Transaction, inbox and outbox for a router. */
  transactional(options: MemoryTransactionalOptions): Middleware {
    const { consumer, destination, ...unknown } = options
    rejectUnknownOptions('transactional()', unknown)
    return compose(
      this.transactionMiddleware(),
      createInboxMiddleware({
        inbox: openInbox({ consumer }),
        store: { record: (_message, context, key) => this.#record(context, key) },
        info: { role: 'inbox', resource: this },
        outputsAreStored: true,
      }),
      createOutboxMiddleware<Opened>(
        this,
        {
          find: (context) => context.get(this.#key),
          append: ({ handle }, records) => this.#append(handle, records),
          scopeOf: ({ scope }) => scope,
        },
        { destination },
      ),
    )
  }

  #record(context: Context, key: InboxKey): InboxFinding {
    const opened = context.get(this.#key)
    if (opened === undefined) throw new TransactionRequiredError('transactional()')
    return opened.changes.recordOnce(inboxKeyText(key)) ? 'new' : 'duplicate'
  }

  async #append({ events }: MemoryStoreTransaction, records: readonly NewOutboxRecord[]): Promise<void> {
    await this.outbox.append(events, records)
    await probe('outbox.appended')
  }

  async #run<R>(message: Message | undefined, context: Context, work: (opened: Opened, context: Context) => Promise<R>): Promise<R> {
    const outer = context.get(this.#key)
    if (outer === undefined) return await this.#begin(message, context, work)
    const nested = () => this.#nest(outer, message, context, work)
    const turn = outer.turn === undefined ? nested() : outer.turn.then(nested, nested)
    outer.turn = turn
    return await turn
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
      await events.settled()
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

  async #nest<R>(
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
      const opened: Opened = { handle, changes, scope }
      const inside = context.with(this.#key, opened).with(transactionScopeKey, scope)
      const result = await enter(inside, () => work(opened, inside))
      await handle.events.settled()
      if (scope.rollbackOnly !== undefined) throw scope.rollbackOnly.error
      await scope.end('committed')
      return result
    } catch (error) {
      // Events that are added later would not be undone.
      await handle.events.settled().catch(() => {})
      undo()
      handle.events.rollbackTo(savepoint)
      await scope.end('rolledBack')
      throw error
    }
  }
}

/** Keys and values. Values are stored by reference and should not be mutated afterwards. */
export interface MemoryTable {
  get(key: string): unknown
  set(key: string, value: unknown): void
  delete(key: string): void
  /** Sorted by key. */
  entries(): readonly (readonly [string, unknown])[]
}

interface Entry {
  readonly value: unknown
}

/** The committed data. */
class MemoryRecords implements MemoryTable {
  readonly inbox: MemoryInbox
  readonly #values = new Map<string, unknown>()
  readonly #versions = new Map<string, number>()

  constructor(inbox: MemoryInbox) {
    this.inbox = inbox
  }

  get(key: string): unknown {
    return this.#values.get(key)
  }

  set(key: string, value: unknown): void {
    this.#values.set(key, value)
    this.#versions.set(key, this.versionOf(key) + 1)
  }

  delete(key: string): void {
    this.#values.delete(key)
    this.#versions.set(key, this.versionOf(key) + 1)
  }

  entries(): readonly (readonly [string, unknown])[] {
    return sorted(this.#values)
  }

  /** How often a key has changed. */
  versionOf(key: string): number {
    return this.#versions.get(key) ?? 0
  }
}

/** The changes of one transaction, and the versions that it has read. */
class MemoryChanges {
  readonly table: MemoryTable
  readonly #records: MemoryRecords
  readonly #versions = new Map<string, number>()
  #entries = new Map<string, Entry | undefined>()
  #inbox = new Set<string>()
  #ended = false

  constructor(records: MemoryRecords) {
    this.#records = records
    this.table = {
      get: (key) => this.#get(key),
      set: (key, value) => this.#change(key, { value }),
      delete: (key) => this.#change(key, undefined),
      entries: () => this.#all(),
    }
  }

  /** Whether the message is new. */
  recordOnce(key: string): boolean {
    this.#checkOpen()
    if (this.#records.inbox.has(key) || this.#inbox.has(key)) return false
    this.#inbox.add(key)
    return true
  }

  /** Returns a function that undoes all later changes. */
  savepoint(): () => void {
    const [entries, inbox] = [new Map(this.#entries), new Set(this.#inbox)]
    return () => {
      this.#entries = entries
      this.#inbox = inbox
    }
  }

  commit(): void {
    this.#checkOpen()
    const stale = [...this.#versions].find(([key, version]) => this.#records.versionOf(key) !== version)
    const repeated = [...this.#inbox].some((key) => this.#records.inbox.has(key))
    if (stale !== undefined || repeated) {
      throw new AckordError('ACKORD_TRANSACTION_CONFLICT', 'Another transaction has changed data that this one has read. Run it again.')
    }
    this.end()
    for (const key of this.#inbox) this.#records.inbox.add(key)
    for (const [key, entry] of this.#entries) {
      if (entry === undefined) this.#records.delete(key)
      else this.#records.set(key, entry.value)
    }
  }

  /** Rejects all further calls. */
  end(): void {
    this.#ended = true
  }

  #get(key: string): unknown {
    this.#checkOpen()
    if (this.#entries.has(key)) return this.#entries.get(key)?.value
    this.#note(key)
    return this.#records.get(key)
  }

  #change(key: string, entry: Entry | undefined): void {
    this.#checkOpen()
    this.#note(key)
    this.#entries.set(key, entry)
  }

  #all(): readonly (readonly [string, unknown])[] {
    this.#checkOpen()
    const all = new Map(this.#records.entries())
    for (const key of all.keys()) this.#note(key)
    for (const [key, entry] of this.#entries) {
      if (entry === undefined) all.delete(key)
      else all.set(key, entry.value)
    }
    return sorted(all)
  }

  #note(key: string): void {
    if (!this.#versions.has(key)) this.#versions.set(key, this.#records.versionOf(key))
  }

  #checkOpen(): void {
    if (this.#ended) throw new AckordError('ACKORD_SCOPE_ENDED', 'The transaction has ended.')
  }
}

function sorted(values: ReadonlyMap<string, unknown>): readonly (readonly [string, unknown])[] {
  return [...values].sort(([one], [other]) => (one < other ? -1 : 1))
}
