import type { RawMessage } from '@ackord/core'
import type { ReplayPreview } from './types.ts'

/** A message at a dead-letter destination. */
export interface DeadLetter {
  /** Where it is, for people. It stands for the id of a message that has none. */
  readonly position: string
  /** The message as it was rejected. */
  readonly message: RawMessage
  /** The destination that it came from. */
  readonly origin: string | undefined
  readonly reason: string | undefined
  /** When it was rejected: milliseconds since the epoch. */
  readonly failedAt: number | undefined
  /** Why the letter is not the whole message. */
  readonly problem: string | undefined
}

interface LetterOptions {
  readonly limit: number
  /** Aborted when the client has disconnected. */
  readonly signal: AbortSignal
}

/** The dead letters of a broker, as the dashboard needs them. An id is that of a message, or the position of a letter whose message has none. */
export interface DeadLetterPort {
  /** The oldest letters, at most `limit`, and how many there are in all. Leaves them where they are. */
  list(options: LetterOptions): Promise<{ readonly letters: readonly DeadLetter[]; readonly count: number }>
  /** The letters with this id, at most `limit`. Leaves them where they are. */
  find(id: string, options: LetterOptions): Promise<readonly DeadLetter[]>
  /** What `replay` would do, of the oldest letters, at most `limit`. */
  preview(ids: readonly string[] | undefined, options: LetterOptions): Promise<ReplayPreview>
  /**
   * Publishes letters to the destinations that they came from, and removes each one after the broker has confirmed its message. `ids`: which ones; `undefined`:
   * all. An abort ends it after the letters that are being published, without an error. Resolves to the number of replayed letters.
   */
  replay(
    ids: readonly string[] | undefined,
    options: {
      readonly signal: AbortSignal
      /** To be called with the number of replayed letters so far. */
      readonly onProgress: (replayed: number) => void
    },
  ): Promise<number>
}
