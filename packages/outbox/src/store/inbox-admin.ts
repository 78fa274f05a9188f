/** A message that an inbox has recorded for one consumer. Instants are milliseconds since the epoch, by the store's clock. */
export interface InboxEntry {
  readonly consumer: string
  /** Empty for a message without a source, and for one that the inbox identifies by its option `key`. */
  readonly source: string
  /** The id of the message, or the result of the inbox's option `key`. */
  readonly id: string
  /**
   * - `handled`: a duplicate is acked and not handled.
   * - `inProgress`: a consumer has a lease on the message. Only in stores that lease messages.
   * - `partial`: a part of its writes was carried out, and it is not handled again until an operator decides. Only in Redis.
   */
  readonly state: 'handled' | 'inProgress' | 'partial'
  /** `undefined` if the store does not know. */
  readonly handledAt: number | undefined
  /** When the store forgets the entry by itself; `undefined` if that is left to a cleanup. */
  readonly expiresAt: number | undefined
}

export interface InboxQuery {
  /** Default: all consumers. Some stores require it. */
  readonly consumer?: string | undefined
  /** The source of the message; empty for a message without one, and for an inbox with the option `key`. Default: any. Some stores require it. */
  readonly source?: string | undefined
}

/** The interface of an inbox for operators; the same on every store. */
export interface InboxAdmin {
  /** The committed entries of a message id, by consumer and source. Rejects if the store requires a part of the query that is missing. */
  find(id: string, query?: InboxQuery): Promise<readonly InboxEntry[]>
  /**
   * Deletes the entries of a message for one consumer: it is handled again if it is redelivered. An entry in progress is not changed. Resolves to the
   * number of deleted entries.
   */
  forget(id: string, which: InboxQuery & { readonly consumer: string }): Promise<number>
}
