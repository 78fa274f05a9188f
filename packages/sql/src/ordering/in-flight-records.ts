import type { Claim } from '@ackord/outbox'
import type { InFlightRow, OwnedClaimOptions } from '../contract/ownership-statements.ts'

/** A record that was passed to the relay and has no outcome yet. */
export interface InFlightRecord extends InFlightRow {
  readonly token: string
  /** By the runtime's clock: when the claim expires unless it is renewed. */
  until: number
}

type ClaimJournalEntry = OwnedClaimOptions['entry']

/**
 * The records that a store object has in flight, and the claim journal entries in the database that list them. A claim writes an entry for the
 * records it returns, and no later statement rewrites it: a takeover finds out which of them were settled. Only records that were released unsettled
 * must not be counted, so the next claim carries the rest of such an entry over into its own.
 */
export class InFlightRecords {
  readonly #records = new Map<string, { readonly record: InFlightRecord; entry: number | undefined }>()
  /** The number of records in flight per entry. */
  readonly #counts = new Map<number, number>()
  /** Entries without records in flight, and entries of which a record was released. */
  readonly #done = new Set<number>()
  readonly #outdated = new Set<number>()
  #lastEntry = 0

  get all(): readonly InFlightRecord[] {
    return [...this.#records.values()].map(({ record }) => record)
  }

  get partitions(): ReadonlySet<number> {
    return new Set(this.all.map(({ partition }) => partition))
  }

  find({ id, token }: Claim): InFlightRecord | undefined {
    const record = this.#records.get(id)?.record
    return record?.token === token ? record : undefined
  }

  /** The entry for the next claim. The caller must then call `written` or `unknown`. */
  nextEntry(): ClaimJournalEntry {
    this.#lastEntry += 1
    const isOutdated = (entry: number | undefined) => entry !== undefined && this.#outdated.has(entry)
    const carried = [...this.#records.values()].filter(({ entry }) => isOutdated(entry)).map(({ record }) => record)
    return { number: this.#lastEntry, done: [...this.#done, ...this.#outdated], carried }
  }

  written({ number, done, carried }: ClaimJournalEntry): void {
    for (const entry of done) {
      this.#done.delete(entry)
      this.#outdated.delete(entry)
      this.#counts.delete(entry)
    }
    for (const { seq } of carried) {
      const found = this.#records.get(seq)
      if (found?.entry === undefined || !done.includes(found.entry)) continue
      found.entry = number
      this.#count(number, 1)
    }
    if (carried.length > 0 && !this.#counts.has(number)) this.#done.add(number)
  }

  /** The claim failed, and its entry may have been written. */
  unknown({ number }: ClaimJournalEntry): void {
    this.#done.add(number)
  }

  /** Without an entry: a record of the log, which is written down elsewhere. */
  add(record: InFlightRecord, journalEntry: ClaimJournalEntry | undefined): void {
    const entry = journalEntry?.number
    this.#records.set(record.seq, { record, entry })
    if (entry !== undefined) this.#count(entry, 1)
  }

  /** The record has an outcome, or is lost. `false`: it was not in flight any more. */
  drop(record: InFlightRecord): boolean {
    const found = this.#records.get(record.seq)
    if (found?.record !== record) return false
    this.#records.delete(record.seq)
    if (found.entry !== undefined) this.#count(found.entry, -1)
    return true
  }

  /** The record is returned unchanged. */
  release(record: InFlightRecord): boolean {
    const entry = this.#records.get(record.seq)?.entry
    const dropped = this.drop(record)
    if (entry !== undefined && this.#counts.has(entry)) this.#outdated.add(entry)
    return dropped
  }

  clear(): void {
    for (const all of [this.#records, this.#counts, this.#done, this.#outdated]) all.clear()
  }

  #count(entry: number, change: number): void {
    const count = (this.#counts.get(entry) ?? 0) + change
    if (count > 0) {
      this.#counts.set(entry, count)
      return
    }
    this.#counts.delete(entry)
    this.#outdated.delete(entry)
    this.#done.add(entry)
  }
}
