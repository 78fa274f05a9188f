import type { RawMessage } from '@ackord/core'

/** A claimed record as hooks see it. */
export interface RelayRecord {
  /** The store's own; the message's is `message.id`. */
  readonly id: string
  /** Its name in the store. */
  readonly destination: string
  readonly message: RawMessage
  /** This one included. */
  readonly attempts: number
  /** Milliseconds since the epoch, by the store's clock. */
  readonly createdAt: number
}

export interface MappedRecord {
  /** Its name at the broker: a topic, an exchange, a path. Default: the name in the store. */
  readonly destination?: string | undefined
  /** What is published in its place; the id must be the same. Default: as it was stored. */
  readonly message?: RawMessage | undefined
}

/** Rewrites a record right before it is published. It is called once per attempt, and must not wait for anything. */
export type MapRecord = (record: RelayRecord) => MappedRecord | undefined
