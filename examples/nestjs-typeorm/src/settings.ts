import type { Logger } from '@ackord/core'

export interface Settings {
  readonly databaseUrl: string
  readonly brokerUrl: string
  readonly queue: string
  readonly logger: Logger
}

/** Injection tokens: interfaces and functions have no class that could serve as the token. */
export const settingsToken = Symbol('settings')
export const databaseToken = Symbol('database')
export const outboxToken = Symbol('outbox')
