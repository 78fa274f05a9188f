import type { RecordTaker } from '@ackord/outbox'

/** Who takes what this process stores in an outbox, right after its commit. By table, because a pool may have several. */
export class RecordTakers {
  readonly #takers = new Map<string, RecordTaker>()

  /** The latest counts. Gives what detaches it. */
  attach(table: string, taker: RecordTaker): () => void {
    this.#takers.set(table, taker)
    return () => {
      if (this.#takers.get(table) === taker) this.#takers.delete(table)
    }
  }

  of(table: string): RecordTaker | undefined {
    return this.#takers.get(table)
  }
}
