import type { RawMessage } from '../../message/message.ts'
import type { Logger } from '../../ports/observability.ts'
import type { Publisher } from '../publisher.ts'

/** A message at a dead-letter destination. */
export interface StoredLetter {
  /** Where it is: an entry id, a sequence, a partition and offset, or its place in a queue. Unique at the destination while nothing else changes it. */
  readonly position: string
  /** As the broker's source reads it; its bytes alone if that is not possible. */
  readonly message: RawMessage
  /** Why it could not be read. */
  readonly problem?: string | undefined
  /** The destination that the broker itself has recorded, if it moved the message here. */
  readonly origin?: string | undefined
  /** The reason that the broker itself has recorded. */
  readonly reason?: string | undefined
}

/** A dead-letter destination that is being looked through, once. */
export interface DeadLetterQueue {
  /** How many letters there are, before they are read. New letters may arrive meanwhile; they are not read. */
  readonly count: number
  /** Publishes letters to their original destinations, confirmed. */
  readonly publisher: Publisher
  /** The letters from the oldest to the one that was the newest at the start. Reading removes none. Ends when the signal is aborted. */
  letters(signal: AbortSignal): AsyncGenerator<StoredLetter, void, void>
  /** Removes letters that `letters()` has yielded. Resolves when the broker has removed them, or when it was sent the request if it does not answer any. */
  remove(letters: readonly StoredLetter[]): Promise<void>
  /** How many letters were passed to `remove()` and are still there, because the broker cannot delete single messages. */
  readonly undeletable: number
  /** Leaves the letters that were not removed where they are. */
  [Symbol.asyncDispose](): Promise<void>
}

/** The options that the dead letters of all brokers have in common. */
export interface DeadLettersOptions {
  /** Publishes replayed letters. It is not closed. Default: a publisher on the same connection, for the time of each look. */
  readonly publisher?: Publisher | undefined
  /** Receives letters that were not replayed, and what an operator should know about the destination. Default: `consoleLogger`. */
  readonly logger?: Logger | undefined
}
