import { AckordError } from '@ackord/core'
import type { NewOutboxRecord } from '../store/new-events.ts'
import type { MemoryRow } from './memory-rows.ts'

/** The changes that a transaction makes to the rows when it ends. */
export interface MemoryTransactionEffects {
  insert(records: readonly NewOutboxRecord[]): void
  delete(row: MemoryRow): void
}

/** A point in a transaction to which it can be rolled back. */
export interface MemorySavepoint {
  readonly records: readonly NewOutboxRecord[]
  readonly cancelled: number
}

/** A transaction of the memory store. It keeps new records, and locks the cancelled ones, until it ends. */
export class MemoryTransaction {
  readonly #effects: MemoryTransactionEffects
  #records: NewOutboxRecord[] = []
  readonly #cancelled: MemoryRow[] = []
  // Created on demand: only codecs take time.
  #pending: Set<Promise<void>> | undefined
  #ended = false

  constructor(effects: MemoryTransactionEffects) {
    this.#effects = effects
  }

  add(records: readonly NewOutboxRecord[]): void {
    this.#checkOpen()
    for (const record of records) this.#records.push(record)
  }

  /** Makes `settled()` wait for work that adds records when it is done. Resolves and rejects as the work does. */
  follow(work: Promise<void>): Promise<void> {
    this.#pending ??= new Set()
    const pending = this.#pending
    const followed = work.finally(() => pending.delete(followed))
    pending.add(followed)
    return followed
  }

  /** Resolves when nothing is being added any more. Rejects if the work in progress fails: the transaction must then be rolled back. */
  async settled(): Promise<void> {
    let failure: PromiseRejectedResult | undefined
    while (this.#pending !== undefined && this.#pending.size > 0) {
      const results = await Promise.allSettled(this.#pending)
      failure ??= results.find(({ status }) => status === 'rejected') as PromiseRejectedResult | undefined
    }
    if (failure !== undefined) throw failure.reason
  }

  /** Locks these rows, to delete them at the commit, and drops delayed records of the transaction itself. Returns the number of both. */
  cancel(rows: readonly MemoryRow[], isNamed: (record: NewOutboxRecord) => boolean): number {
    this.#checkOpen()
    for (const row of rows) {
      row.locked = true
      this.#cancelled.push(row)
    }
    const kept = this.#records.filter((record) => (record.delay ?? 0) <= 0 || !isNamed(record))
    const dropped = this.#records.length - kept.length
    this.#records = kept
    return rows.length + dropped
  }

  /** The records added so far and not rolled back. */
  get records(): readonly NewOutboxRecord[] {
    this.#checkOpen()
    return [...this.#records]
  }

  savepoint(): MemorySavepoint {
    this.#checkOpen()
    return { records: [...this.#records], cancelled: this.#cancelled.length }
  }

  /** Discards everything after the savepoint. */
  rollbackTo({ records, cancelled }: MemorySavepoint): void {
    this.#checkOpen()
    this.#records = [...records]
    unlock(this.#cancelled.splice(cancelled))
  }

  commit(): void {
    this.#checkOpen()
    this.#ended = true
    for (const row of this.#cancelled) this.#effects.delete(row)
    this.#effects.insert(this.#records)
  }

  rollback(): void {
    this.#checkOpen()
    this.#ended = true
    this.#records = []
    unlock(this.#cancelled)
  }

  #checkOpen(): void {
    if (this.#ended) throw new AckordError('ACKORD_SCOPE_ENDED', 'The transaction has ended.')
  }
}

function unlock(rows: readonly MemoryRow[]): void {
  for (const row of rows) row.locked = false
}
