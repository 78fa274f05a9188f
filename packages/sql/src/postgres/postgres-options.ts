import type { FromOptions } from '../from-options.ts'

/** What a database on PostgreSQL is made with once. */
export interface PostgresOptions extends FromOptions {
  /**
   * Whether storing events also sends a notification, one for each transaction, so that relays of other processes which listen
   * (`pgNotifications()`) wake at once. It costs a lock at every such commit, on the whole server. Default: false.
   */
  readonly notify?: boolean | undefined
}
