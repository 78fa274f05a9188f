import type { Output } from './output.ts'
import type { Secrets } from './secrets.ts'

/** What every command is given. */
export interface Session {
  readonly output: Output
  readonly secrets: Secrets
  /** Aborted by Ctrl-C and SIGTERM: the command stops what it does, cleans up, and ends. */
  readonly signal: AbortSignal
}
