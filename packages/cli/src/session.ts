import type { Output } from './output.ts'
import type { Secrets } from './secrets.ts'

/** What every command is given. */
export interface Session {
  readonly output: Output
  readonly secrets: Secrets
  /** Aborted by Ctrl-C, SIGTERM and SIGHUP, and by a failure that nobody waited for: the command stops what it does, cleans up, and ends. Its reason is a `CommandError`. */
  readonly signal: AbortSignal
}
