import { AckordError } from '@ackord/core'
import type { NewOutboxRecord } from './outbox-store.ts'

/** What a memory store's transaction is: it keeps the records until it commits. */
export class MemoryTransaction {
  readonly #onCommit: (records: readonly NewOutboxRecord[]) => void
  #records: NewOutboxRecord[] = []
  #ended = false

  constructor(onCommit: (records: readonly NewOutboxRecord[]) => void) {
    this.#onCommit = onCommit
  }

  add(records: readonly NewOutboxRecord[]): void {
    this.#checkOpen()
    for (const record of records) this.#records.push(record)
  }

  /** What was added so far and not rolled back. */
  get records(): readonly NewOutboxRecord[] {
    this.#checkOpen()
    return [...this.#records]
  }

  /** Where a savepoint begins; `rollbackTo` forgets what came after it. */
  savepoint(): number {
    this.#checkOpen()
    return this.#records.length
  }

  rollbackTo(savepoint: number): void {
    this.#checkOpen()
    this.#records.length = savepoint
  }

  commit(): void {
    this.#checkOpen()
    this.#ended = true
    this.#onCommit(this.#records)
  }

  rollback(): void {
    this.#checkOpen()
    this.#ended = true
    this.#records = []
  }

  #checkOpen(): void {
    if (this.#ended) throw new AckordError('ACKORD_SCOPE_ENDED', 'The transaction has ended.')
  }
}
