import { AckordError, type Attributes, InvalidOptionError, type Runtime, systemRuntime } from '@ackord/core'
import { checkAttributes } from '@ackord/core/broker'
import { checkCount, describeMessage, eachWakeUp } from '@ackord/core/internal'
import { StatsSum } from '../store/administration.ts'
import { type EventCompleter, eventCompleter, type NewEventOptions, type NewEvents } from '../store/new-events.ts'
import type { OutboxAdmin, OutboxEdit, OutboxFilter, OutboxPage, OutboxRecord, OutboxStats, RearmOptions } from '../store/outbox-admin.ts'
import type {
  Claim,
  ClaimedRecord,
  ClaimOptions,
  NewOutboxRecord,
  OutboxCapabilities,
  OutboxReader,
  OutboxReference,
  OutboxStore,
  OutboxWriter,
  Outcome,
} from '../store/outbox-store.ts'
import { attributesToJson, checkRearm, checkRecordSize, checkReferences, defaultMaxSize, invalidCursor } from '../store/record-checks.ts'
import { type MemoryClaims, MemoryRowLeases } from './memory-claims.ts'
import { MemoryOrderedClaims, MemoryPartitions } from './memory-ordered-claims.ts'
import {
  applyOutcome,
  isCancellable,
  isPending,
  type MemoryRow,
  MemoryRows,
  matches,
  outboxRecord,
  parkRow,
  rearmRow,
  stateOf,
} from './memory-rows.ts'
import { MemoryTransaction } from './memory-transaction.ts'

export interface MemoryOutboxStoreOptions extends NewEventOptions {
  /** Whether published records are kept until `deletePublished()`. Default: false, they are deleted. */
  readonly retain?: boolean | undefined
  /** `perKey`: records of one destination and ordering key are claimed in the order of their commits. Default: `none`. */
  readonly order?: 'none' | 'perKey' | undefined
  /**
   * The maximum size of a record in bytes: its data, its attributes as JSON and its destination. A larger record is rejected before anything is
   * written. Default: 5 MB.
   */
  readonly maxSize?: number | undefined
  readonly runtime?: Runtime | undefined
}

/** The data that all store objects on the same records share. */
interface SharedData {
  readonly rows: MemoryRows
  readonly partitions: MemoryPartitions
  readonly transactions: WeakSet<MemoryTransaction>
}

/** An outbox in memory, for tests and demos, and the reference implementation of the contracts. Its records are lost when the process ends. */
export class MemoryOutboxStore implements OutboxStore, OutboxAdmin, OutboxWriter<MemoryTransaction>, OutboxReader<MemoryTransaction> {
  readonly capabilities: OutboxCapabilities
  readonly #options: MemoryOutboxStoreOptions
  readonly #runtime: Runtime
  readonly #retain: boolean
  readonly #maxSize: number
  readonly #complete: EventCompleter
  #data: SharedData = { rows: new MemoryRows(), partitions: new MemoryPartitions(), transactions: new WeakSet() }
  #claims: MemoryClaims

  constructor(options: MemoryOutboxStoreOptions = {}) {
    const { retain = false, order = 'none', maxSize = defaultMaxSize, runtime = systemRuntime } = options
    this.#complete = eventCompleter('new MemoryOutboxStore', options, runtime)
    if (order !== 'none' && order !== 'perKey') throw new InvalidOptionError('order', `must be 'none' or 'perKey'; it is ${String(order)}.`)
    this.#options = options
    this.#retain = retain
    this.#maxSize = checkCount('maxSize', maxSize)
    this.#runtime = runtime
    this.capabilities = { order, delay: true, preLease: false }
    this.#claims = this.#createClaims()
  }

  /** Another store object on the same records, as another process would have. With order `perKey` the two share the partitions. */
  another(): MemoryOutboxStore {
    const other = new MemoryOutboxStore(this.#options)
    other.#data = this.#data
    other.#claims = other.#createClaims()
    return other
  }

  begin(): MemoryTransaction {
    const { rows, transactions } = this.#data
    const transaction = new MemoryTransaction({
      insert: (records) => rows.insert(records, this.#runtime.now()),
      delete: (row) => rows.delete(row),
    })
    transactions.add(transaction)
    return transaction
  }

  async append(transaction: MemoryTransaction, events: NewEvents): Promise<void> {
    this.#checkTransaction('append()', transaction)
    const records = this.#complete(events)
    for (const record of records) {
      const { attributes } = record.message
      checkAttributes(attributes, () => describeMessage(record.message))
      checkRecordSize(record, attributesToJson(attributes), this.#maxSize)
    }
    transaction.add(records)
  }

  async cancel(transaction: MemoryTransaction, references: readonly OutboxReference[]): Promise<number> {
    this.#checkTransaction('cancel()', transaction)
    checkReferences(references)
    const now = this.#runtime.now()
    const isNamed = (destination: string, { source, id }: Attributes) =>
      references.some((one) => one.destination === destination && one.source === source && one.id === id)
    const rows = [...this.#data.rows.all()].filter((row) => isCancellable(row, now) && isNamed(row.destination, row.attributes))
    return transaction.cancel(rows, ({ destination, message }) => isNamed(destination, message.attributes))
  }

  async readAppended(transaction: MemoryTransaction): Promise<readonly NewOutboxRecord[]> {
    this.#checkTransaction('readAppended()', transaction)
    const now = this.#runtime.now()
    const committed = [...this.#data.rows.all()].filter(isPending).map((row) => outboxRecord(row, now))
    return [...committed.map(({ destination, message }) => ({ destination, message })), ...transaction.records]
  }

  async claim(options: ClaimOptions): Promise<readonly ClaimedRecord[]> {
    return this.#claims.claim(options)
  }

  async renew(claims: readonly Claim[], lease: number): Promise<readonly boolean[]> {
    return this.#claims.renew(claims, lease)
  }

  async release(claims: readonly Claim[]): Promise<void> {
    for (const claim of claims) {
      const row = this.#claims.held(claim)
      if (row !== undefined) this.#claims.undo(row)
    }
    this.#data.rows.wake()
  }

  async settle(outcomes: readonly Outcome[]): Promise<readonly ('applied' | 'lost')[]> {
    return outcomes.map((outcome) => {
      const row = this.#claims.held(outcome)
      if (row === undefined) return 'lost'
      this.#claims.count(row, outcome)
      applyOutcome(row, outcome, this.#runtime.now())
      if (row.state === 'published' && !this.#retain) this.#data.rows.delete(row)
      return 'applied'
    })
  }

  /** Frees the partitions of this object immediately. Without order it owns none. */
  async leave(): Promise<void> {
    this.#claims.leave()
  }

  wakeUps({ signal }: { readonly signal: AbortSignal }): AsyncGenerator<void, void, void> {
    return eachWakeUp((hint) => this.#data.rows.listen(hint), signal)
  }

  async list(filter: OutboxFilter, page: { readonly limit: number; readonly after?: string | undefined }): Promise<OutboxPage> {
    const after = page.after === undefined ? 0 : cursorOf(page.after)
    const now = this.#runtime.now()
    const records = [...this.#data.rows.all()]
      .filter((row) => Number(row.id) > after && matches(row, filter, now))
      .slice(0, page.limit + 1)
      .map((row) => outboxRecord(row, now))
    const more = records.length > page.limit
    const shown = more ? records.slice(0, page.limit) : records
    return { records: shown, next: more ? shown.at(-1)?.id : undefined }
  }

  async get(id: string): Promise<OutboxRecord | undefined> {
    const row = this.#data.rows.get(id)
    return row === undefined ? undefined : outboxRecord(row, this.#runtime.now())
  }

  async rearm(
    which: { readonly ids: readonly string[] } | { readonly filter: OutboxFilter },
    edit: OutboxEdit = {},
    options: RearmOptions = {},
  ): Promise<number> {
    const { state = 'parked' } = checkRearm(options)
    const now = this.#runtime.now()
    const found =
      'ids' in which ? this.#data.rows.find(which.ids) : [...this.#data.rows.all()].filter((row) => matches(row, which.filter, now))
    const rows = found.filter((row) => row.state === state)
    for (const row of rows) rearmRow(row, edit, options, now)
    if (rows.length > 0) this.#data.rows.wake()
    return rows.length
  }

  async park(ids: readonly string[], reason: string): Promise<number> {
    const now = this.#runtime.now()
    const rows = this.#data.rows.find(ids).filter((row) => isPending(row) && !this.#claims.isHeld(row))
    for (const row of rows) parkRow(row, reason, now)
    return rows.length
  }

  async discard(ids: readonly string[], _reason: string): Promise<number> {
    const rows = this.#parked(ids)
    for (const row of rows) this.#data.rows.delete(row)
    // With order per key, other records may have waited behind them.
    if (rows.length > 0) this.#data.rows.wake()
    return rows.length
  }

  async stats(): Promise<OutboxStats> {
    const sum = new StatsSum()
    const now = this.#runtime.now()
    for (const row of this.#data.rows.all()) {
      const state = stateOf(row, now)
      sum.add(row.destination, { [state]: 1 }, state === 'parked' || state === 'published' ? undefined : now - row.createdAt)
    }
    return sum.stats
  }

  async deletePublished(options: { readonly olderThan: number; readonly limit: number }): Promise<number> {
    const before = this.#runtime.now() - options.olderThan
    const old = [...this.#data.rows.all()]
      .filter((row) => row.publishedAt !== undefined && row.publishedAt <= before)
      .slice(0, options.limit)
    for (const row of old) this.#data.rows.delete(row)
    return old.length
  }

  #checkTransaction(caller: string, transaction: MemoryTransaction): void {
    if (this.#data.transactions.has(transaction)) return
    throw new AckordError('ACKORD_TRANSACTION_REQUIRED', `${caller} requires a transaction created by this store's begin().`)
  }

  #parked(ids: readonly string[]): MemoryRow[] {
    return this.#data.rows.find(ids).filter((row) => row.state === 'parked')
  }

  #createClaims(): MemoryClaims {
    const { rows, partitions } = this.#data
    return this.capabilities.order === 'none'
      ? new MemoryRowLeases(rows, this.#runtime)
      : new MemoryOrderedClaims(rows, partitions, this.#runtime)
  }
}

function cursorOf(after: string): number {
  if (/^[1-9]\d*$/.test(after)) return Number(after)
  throw invalidCursor(after)
}
