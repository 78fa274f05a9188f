import { AckordError, type Attributes, InvalidOptionError, type Runtime, systemRuntime } from '@ackord/core'
import { checkAttributes } from '@ackord/core/broker'
import { checkCount, describeMessage, eachWakeUp } from '@ackord/core/internal'
import type { NewOutboxRecord } from '../store/new-events.ts'
import {
  type EventCompleter,
  eventCompleter,
  type NewEventOptions,
  type NewEvents,
  type RecordEncoder,
  recordEncoder,
} from '../store/new-events.ts'
import { type CompleteAdministration, completeAdministration } from '../store/note-administration.ts'
import type { OutboxNotes } from '../store/notes.ts'
import type {
  AuditEntry,
  AuditedSteps,
  ChosenRecords,
  DestinationPause,
  Operator,
  OutboxActivity,
  OutboxAdmin,
  OutboxEdit,
  OutboxFilter,
  OutboxGroups,
  OutboxListOptions,
  OutboxPage,
  OutboxRate,
  OutboxRecord,
  OutboxStats,
  PauseOptions,
  RearmOptions,
  RecordFailure,
  RelayReport,
} from '../store/outbox-admin.ts'
import type {
  Claim,
  ClaimedRecord,
  ClaimOptions,
  EventReferences,
  OutboxCapabilities,
  OutboxReader,
  OutboxStore,
  OutboxWriter,
  Outcome,
} from '../store/outbox-store.ts'
import { attributesToJson, checkRecordSize, completeReferences, defaultMaxSize } from '../store/record-checks.ts'
import { memoryAdministration } from './memory-administration.ts'
import { type MemoryClaims, MemoryRowLeases } from './memory-claims.ts'
import { MemoryNotes } from './memory-notes.ts'
import { MemoryOrderedClaims, MemoryPartitions } from './memory-ordered-claims.ts'
import { applyOutcome, isCancellable, isPending, MemoryRows, outboxRecord } from './memory-rows.ts'
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
  readonly notes: MemoryNotes
}

/** An outbox in memory, for tests and demos, and the reference implementation of the contracts. Its records are lost when the process ends. */
export class MemoryOutboxStore implements OutboxStore, OutboxAdmin, OutboxWriter<MemoryTransaction>, OutboxReader<MemoryTransaction> {
  readonly capabilities: OutboxCapabilities
  readonly #options: MemoryOutboxStoreOptions
  readonly #runtime: Runtime
  readonly #retain: boolean
  readonly #maxSize: number
  readonly #complete: EventCompleter
  readonly #encode: RecordEncoder | undefined
  #data: SharedData
  #claims: MemoryClaims
  #administration: CompleteAdministration

  constructor(options: MemoryOutboxStoreOptions = {}) {
    const { retain = false, order = 'none', maxSize = defaultMaxSize, runtime = systemRuntime } = options
    this.#complete = eventCompleter('new MemoryOutboxStore', options, runtime)
    this.#encode = recordEncoder(options, runtime)
    if (order !== 'none' && order !== 'perKey') throw new InvalidOptionError('order', `must be 'none' or 'perKey'; it is ${String(order)}.`)
    this.#options = options
    this.#retain = retain
    this.#maxSize = checkCount('maxSize', maxSize)
    this.#runtime = runtime
    this.#data = {
      rows: new MemoryRows(),
      partitions: new MemoryPartitions(),
      transactions: new WeakSet(),
      notes: new MemoryNotes(runtime),
    }
    this.capabilities = { order, delay: true, preLease: false }
    this.#claims = this.#createClaims()
    this.#administration = this.#createAdministration()
  }

  get notes(): OutboxNotes {
    return this.#data.notes
  }

  /** Another store object on the same records, as another process would have. With order `perKey` the two share the partitions. */
  another(): MemoryOutboxStore {
    const other = new MemoryOutboxStore(this.#options)
    other.#data = this.#data
    other.#claims = other.#createClaims()
    other.#administration = other.#createAdministration()
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
    const completed = this.#complete(events)
    if (this.#encode === undefined) this.#add(transaction, completed)
    else await transaction.follow(this.#encode(completed, transaction).then((records) => this.#add(transaction, records)))
  }

  async cancel(transaction: MemoryTransaction, references: EventReferences): Promise<number> {
    this.#checkTransaction('cancel()', transaction)
    const named = completeReferences(references, this.#options)
    const now = this.#runtime.now()
    const isNamed = (destination: string, { source, id }: Attributes) =>
      named.some((one) => one.destination === destination && one.source === source && one.id === id)
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

  ownedPartitions(): readonly number[] | undefined {
    return this.#claims.owned()
  }

  wakeUps({ signal }: { readonly signal: AbortSignal }): AsyncGenerator<void, void, void> {
    return eachWakeUp((hint) => this.#data.rows.listen(hint), signal)
  }

  list(filter: OutboxFilter, page: OutboxListOptions): Promise<OutboxPage> {
    return this.#administration.list(filter, page)
  }

  get(id: string): Promise<OutboxRecord | undefined> {
    return this.#administration.get(id)
  }

  find(which: { readonly messageId: string }): Promise<readonly OutboxRecord[]> {
    return this.#administration.find(which)
  }

  rearm(which: ChosenRecords, edit?: OutboxEdit, options?: RearmOptions): Promise<number> {
    return this.#administration.rearm(which, edit, options)
  }

  park(ids: readonly string[], reason: string, operator?: Pick<Operator, 'by'>): Promise<number> {
    return this.#administration.park(ids, reason, operator)
  }

  discard(which: readonly string[] | { readonly filter: OutboxFilter }, reason: string, operator?: Pick<Operator, 'by'>): Promise<number> {
    return this.#administration.discard(which, reason, operator)
  }

  cancelWaiting(
    which: readonly string[] | { readonly filter: OutboxFilter },
    reason: string,
    operator?: Pick<Operator, 'by'>,
  ): Promise<number> {
    return this.#administration.cancelWaiting(which, reason, operator)
  }

  stats(options?: { readonly limit?: number | undefined }): Promise<OutboxStats> {
    return this.#administration.stats(options)
  }

  groups(by: 'failure' | 'type' | 'destination', filter?: OutboxFilter): Promise<OutboxGroups> {
    return this.#administration.groups(by, filter)
  }

  history(id: string): Promise<readonly RecordFailure[]> {
    return this.#administration.history(id)
  }

  pause(destination: string, options?: PauseOptions): Promise<void> {
    return this.#administration.pause(destination, options)
  }

  resume(destination: string, options?: Operator): Promise<boolean> {
    return this.#administration.resume(destination, options)
  }

  pauses(): Promise<readonly DestinationPause[]> {
    return this.#administration.pauses()
  }

  relays(): Promise<readonly RelayReport[]> {
    return this.#administration.relays()
  }

  rates(options: { readonly maxAge: number }): Promise<readonly OutboxRate[]> {
    return this.#administration.rates(options)
  }

  activity(options: { readonly maxAge: number }): Promise<OutboxActivity> {
    return this.#administration.activity(options)
  }

  audited(entry: Pick<AuditEntry, 'action' | 'what'> & Operator, work: (steps: AuditedSteps) => Promise<number>): Promise<number> {
    return this.#administration.audited(entry, work)
  }

  audit(options: { readonly limit: number }): Promise<readonly AuditEntry[]> {
    return this.#administration.audit(options)
  }

  deletePublished(options: { readonly olderThan: number; readonly limit: number }): Promise<number> {
    return this.#administration.deletePublished(options)
  }

  #add(transaction: MemoryTransaction, records: readonly NewOutboxRecord[]): void {
    for (const record of records) {
      const { attributes } = record.message
      checkAttributes(attributes, () => describeMessage(record.message))
      checkRecordSize(record, attributesToJson(attributes), this.#maxSize)
    }
    transaction.add(records)
  }

  #checkTransaction(caller: string, transaction: MemoryTransaction): void {
    if (this.#data.transactions.has(transaction)) return
    throw new AckordError('ACKORD_TRANSACTION_REQUIRED', `${caller} requires a transaction created by this store's begin().`)
  }

  #createAdministration(): CompleteAdministration {
    const { rows, notes } = this.#data
    return completeAdministration(memoryAdministration(rows, this.#claims, this.#runtime), { notes, runtime: this.#runtime })
  }

  #createClaims(): MemoryClaims {
    const { rows, partitions } = this.#data
    return this.capabilities.order === 'none'
      ? new MemoryRowLeases(rows, this.#runtime)
      : new MemoryOrderedClaims(rows, partitions, this.#runtime)
  }
}
