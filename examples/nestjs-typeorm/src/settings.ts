import type { Logger } from '@ackord/core'

export interface Settings {
  readonly databaseUrl: string
  readonly brokerUrl: string
  readonly queue: string
  readonly logger: Logger
}

/** What others ask for by these: interfaces and functions have no class that could be the token. */
export const settingsToken = Symbol('settings')
export const databaseToken = Symbol('database')
export const outboxToken = Symbol('outbox')
