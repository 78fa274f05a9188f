import type { RawMessage } from '../message/message.ts'

/** Where messages come from. */
export interface Source {
  /**
   * Pulled; each iteration is single use. An abort ends the iteration without an error. Leaving the loop, by `break`, `throw` or abort,
   * gives back what was taken and not yet yielded; messages that were yielded stay with whoever has them until settled.
   * A source that cannot go on throws; one that can heal (a lost connection) heals and goes on.
   */
  messages(options: { readonly signal: AbortSignal }): AsyncIterable<RawMessage>
  /** Gives back what was yielded and is not settled, and closes what the source opened itself. Stop the router first. Idempotent. */
  [Symbol.asyncDispose]?(): Promise<void>
}
