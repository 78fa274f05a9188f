import type { PendingKey } from '../contract/ownership-statements.ts'
import { compareSeq } from '../records/claimed-record.ts'

/** The number of keys without pending records that are remembered. */
const maxKeys = 50_000

/** A record of a key. */
interface KeyedRecord {
  readonly destination: string
  readonly partition: number
  readonly key: string
  readonly seq: string
}

interface KeyState {
  readonly destination: string
  readonly partition: number
  readonly key: string
  /** Up to this seq, no record of the key is ready or waiting. */
  after: string
  /** The highest seq that was read. */
  seen: string
  /** Whether there may be records of the key below the floor, where they are not read: the key is visited again after every run. */
  unread: boolean
  inFlight: number
  /** The last record in flight, and whether all records of the run were published so far. */
  last: string
  published: boolean
  /** Whether a record of the key was parked: an operator may make it ready again, so the key must be searched from there on. */
  parked: boolean
}

/**
 * The keys of which records may be claimed, and the seqs below which a key need not be searched: the rows that were published there may still exist while
 * a transaction holds an old snapshot. A run begins with the first record of its key, and writers of a key take turns, so once a whole run has been
 * published, no record of the key is ready or waiting up to its end. If an operator changes that, the walk over all keys finds the record.
 */
export class PendingKeys {
  readonly #keys = new Map<string, Map<string, KeyState>>()
  /** By destination, in the order in which they were found; first those whose first record could be claimed when it was found. */
  readonly #pending = new Map<string, { readonly first: Set<KeyState>; readonly others: Set<KeyState> }>()
  #count = 0

  countOf(destination: string): number {
    const { first, others } = this.#pending.get(destination) ?? {}
    return (first?.size ?? 0) + (others?.size ?? 0)
  }

  /** A record was read. If that is not for the first time, it need not be visited again. */
  read(record: KeyedRecord): void {
    const state = this.#of(record)
    if (compareSeq(record.seq, state.seen) <= 0) return
    state.seen = record.seq
    if (state.inFlight === 0 && compareSeq(record.seq, state.after) > 0) this.#add(state)
  }

  /** A record was found otherwise. `isHead`: it is the first of its key, and can be claimed. */
  found(record: KeyedRecord, { isHead }: { readonly isHead: boolean }): void {
    const state = this.#of(record)
    if (compareSeq(record.seq, state.after) <= 0) state.after = '0'
    if (this.#isPending(state)) return
    state.unread = true
    if (state.inFlight === 0) this.#add(state, { first: isHead })
  }

  /** The next keys to claim from, at most `limit`, evenly from these destinations. `isHeld`: whether records of a key are in flight elsewhere. */
  next(destinations: readonly string[], limit: number, isHeld: (key: PendingKey) => boolean): readonly PendingKey[] {
    const share = Math.max(1, Math.floor(limit / Math.max(1, destinations.length)))
    const keys: PendingKey[] = []
    for (const destination of destinations) {
      const { first = [], others = [] } = this.#pending.get(destination) ?? {}
      let count = 0
      for (const state of [...first, ...others]) {
        if (count === share || keys.length === limit) break
        if (isHeld(state)) continue
        keys.push(state)
        count += 1
      }
    }
    return keys.map(({ destination, partition, key, after }) => ({ destination, partition, key, after }))
  }

  /** None of the key's records can be claimed now. */
  empty({ destination, key }: PendingKey): void {
    const state = this.#keys.get(destination)?.get(key)
    if (state === undefined) return
    state.unread = false
    this.#remove(state)
  }

  /** A record was claimed. `behind`: a record of its key before it is parked. */
  claimed(record: KeyedRecord, { behind }: { readonly behind: boolean }): void {
    const state = this.#of(record)
    this.#remove(state)
    if (state.inFlight === 0) {
      state.published = true
      state.last = '0'
    }
    state.inFlight += 1
    if (compareSeq(record.seq, state.last) > 0) state.last = record.seq
    if (behind) state.parked = true
  }

  /** A record is no longer in flight. `undefined`: it was released, or its outcome was not applied. */
  settled({ destination, key }: Pick<KeyedRecord, 'destination' | 'key'>, result: 'published' | 'failed' | 'parked' | undefined): void {
    const state = this.#keys.get(destination)?.get(key)
    if (state === undefined || state.inFlight === 0) return
    state.inFlight -= 1
    if (result !== 'published') state.published = false
    if (result === 'parked') state.parked = true
    if (state.inFlight > 0) return
    if (!state.published) state.unread = true
    else if (!state.parked) state.after = state.last
    if (state.unread || compareSeq(state.seen, state.last) > 0) this.#add(state)
  }

  /** All records are read again. */
  restart(): void {
    for (const keys of this.#keys.values()) for (const state of keys.values()) state.seen = '0'
  }

  clear(): void {
    this.#keys.clear()
    this.#pending.clear()
    this.#count = 0
  }

  #of({ destination, partition, key }: Omit<KeyedRecord, 'seq'>): KeyState {
    const known = this.#keys.get(destination)?.get(key)
    if (known !== undefined) return known
    if (this.#count >= 2 * maxKeys) this.#forget()
    const keys = this.#keys.get(destination) ?? new Map<string, KeyState>()
    this.#keys.set(destination, keys)
    const state = {
      destination,
      partition,
      key,
      after: '0',
      seen: '0',
      unread: false,
      inFlight: 0,
      last: '0',
      published: false,
      parked: false,
    }
    keys.set(key, state)
    this.#count += 1
    return state
  }

  /** Keys that are forgotten are searched from their beginning the next time. */
  #forget(): void {
    for (const [destination, keys] of this.#keys) {
      for (const [key, state] of keys) {
        if (this.#count <= maxKeys) return
        if (state.inFlight > 0 || this.#isPending(state)) continue
        keys.delete(key)
        this.#count -= 1
      }
      if (keys.size === 0) this.#keys.delete(destination)
    }
  }

  #isPending(state: KeyState): boolean {
    const { first, others } = this.#pending.get(state.destination) ?? {}
    return first?.has(state) === true || others?.has(state) === true
  }

  #add(state: KeyState, { first }: { readonly first: boolean } = { first: false }): void {
    let pending = this.#pending.get(state.destination)
    if (pending === undefined) {
      pending = { first: new Set(), others: new Set() }
      this.#pending.set(state.destination, pending)
    }
    if (!this.#isPending(state)) pending[first ? 'first' : 'others'].add(state)
  }

  #remove(state: KeyState): void {
    const pending = this.#pending.get(state.destination)
    pending?.first.delete(state)
    pending?.others.delete(state)
  }
}
