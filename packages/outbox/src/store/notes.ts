/** A small fact beside the records of an outbox, by the store's clock. */
export interface Note {
  readonly name: string
  readonly value: string
  /** When it was written last, in milliseconds since the epoch. */
  readonly at: number
  /** The same as a duration: milliseconds since then. */
  readonly age: number
}

/**
 * - `pause`: a destination that an operator has paused.
 * - `relay`: a relay that is alive.
 * - `rate`: what a relay has published to a destination in about a minute.
 * - `audit`: an action of an operator.
 */
export type NoteKind = 'pause' | 'relay' | 'rate' | 'audit'

export interface NoteQuery {
  readonly kind: NoteKind
  readonly limit: number
  /** Only notes that were written at most this many milliseconds ago. */
  readonly maxAge?: number | undefined
}

/**
 * Small facts that all relays and operators of a store share. A store implements these three calls, and gets pausing, the list of relays, rates and the audit from them.
 * Names have at most 200 characters, values at most 10,000.
 */
export interface OutboxNotes {
  /** Writes notes, each replacing the one with the same kind and name. Deletes notes of that kind that were written more than `keep` milliseconds ago. */
  put(kind: NoteKind, notes: readonly Pick<Note, 'name' | 'value'>[], keep: number): Promise<void>
  /** The latest notes first. `maxAge`: only notes that were written at most this many milliseconds ago. */
  read(kind: NoteKind, options: { readonly limit: number; readonly maxAge?: number | undefined }): Promise<readonly Note[]>
  /** The notes of each query, with one statement. Default: `read` is called for each. */
  readEach?(queries: readonly NoteQuery[]): Promise<readonly (readonly Note[])[]>
  /** Whether there was one. */
  delete(kind: NoteKind, name: string): Promise<boolean>
}
