import type { EventContent } from './read-events.ts'

/** A message that came by a request and is not settled. */
export interface HeldMessage {
  /** What it is made of, for whoever handles it now; `undefined` if it is not wanted any more, because it took too long to get there. */
  take(): EventContent | undefined
  /** Throws if nobody waits for the verdict any more. */
  ack(): void
  /** Throws as `ack` does. */
  nack(retryAfter: number): void
  /** Nobody has seen it, and nobody will. */
  giveBack(): void
}
