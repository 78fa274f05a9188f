import type { Logger, Runtime } from '@ackord/core'

export interface FollowOptions {
  readonly signal: AbortSignal
  readonly runtime: Runtime
  readonly logger: Logger
}

/** Wakes relays when other processes commit. A hint only: commits missed while the connection is down are found by polling. */
export interface Notifications {
  /** Calls `wake` for every commit that stored rows in this outbox table (quoted), until the signal is aborted. Reconnects. Never rejects. */
  follow(table: string, wake: () => void, options: FollowOptions): Promise<void>
}
