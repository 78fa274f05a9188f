import type { DeadLetterSummary } from './types.ts'

/** The dead letters of a broker, as the dashboard needs them. */
export interface DeadLetterPort {
  /** The oldest letters, at most `limit`, and how many there are in all. */
  list(options: {
    readonly limit: number
    /** Aborted when the client has disconnected. */
    readonly signal: AbortSignal
  }): Promise<{ readonly letters: readonly DeadLetterSummary[]; readonly count: number }>
  /**
   * Publishes letters to the destinations that they came from, and removes each one after the broker has confirmed its message. `messageIds`: which ones; `undefined`:
   * all. An abort ends it after the letters that are being published, without an error. Resolves to the number of replayed letters.
   */
  replay(
    messageIds: readonly string[] | undefined,
    options: {
      readonly signal: AbortSignal
      /** To be called with the number of replayed letters so far. */
      readonly onProgress: (replayed: number) => void
    },
  ): Promise<number>
}
