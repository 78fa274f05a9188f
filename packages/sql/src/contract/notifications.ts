import type { Logger, Runtime } from '@ackord/core'

export interface FollowOptions {
  readonly signal: AbortSignal
  readonly runtime: Runtime
  readonly logger: Logger
}

/** Hears of what other processes commit. A hint: what is lost while the connection is away is found by polling. */
export interface Notifications {
  /** Calls `wake` for every commit that stored something in this outbox table (quoted), until the signal is aborted. Reconnects. Never rejects. */
  follow(table: string, wake: () => void, options: FollowOptions): Promise<void>
}
