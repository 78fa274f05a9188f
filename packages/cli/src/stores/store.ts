import type { Logger, Middleware } from '@ackord/core'
import type { NewOutboxRecord, OutboxAdmin, OutboxStore } from '@ackord/outbox'
import type { Order, Row } from '@ackord/sql'

/** Where an outbox is, beside the server: all of a store's commands take the same. */
export interface StorePlace {
  /** The namespace of the tables; SQL only. */
  readonly schema?: string | undefined
  /** What the names of the tables begin with; SQL only. Default: `ackord_`. */
  readonly prefix?: string | undefined
  /** What the keys of the outbox are called; Redis only. Default: `outbox`, of a Lua outbox `lua-outbox`. */
  readonly stream?: string | undefined
  /** The hash tags of the outbox; Redis only, of a Lua outbox one. Default: `ackord`. */
  readonly tag?: readonly string[] | undefined
  /** Which outbox it is; Redis only. Default: `stream`. */
  readonly outbox?: 'stream' | 'lua' | undefined
  /** Into how many parts it is divided; the Lua outbox only. Default: 1. */
  readonly shards?: number | undefined
}

export interface OutboxChoices {
  /** Default: `none`. */
  readonly order?: Order | undefined
  /** Whether published records are kept; SQL and the Lua outbox only. Default: false. */
  readonly retain?: boolean | undefined
  /** Whether notifications are listened to, on a connection of their own; PostgreSQL only. Default: false. */
  readonly listen?: boolean | undefined
  readonly logger: Logger
}

type AdminOutbox = OutboxStore & OutboxAdmin

interface ServiceOptions {
  readonly consumer: string
  readonly destination: string
  readonly onDuplicate?: (() => void) | undefined
}

/** What SQL databases and Redis have in common, as far as the command is concerned. */
interface AnyStore {
  /** To be printed. */
  readonly address: string
  /** One round trip. Rejects where the server cannot be reached, or refuses us. */
  connect(): Promise<void>
  outbox(choices: OutboxChoices): AdminOutbox
  /** Inbox, transaction and outbox around the handlers of a service. */
  transactional(options: ServiceOptions): Middleware
  /** Stores the records in a transaction of their own. */
  append(records: readonly NewOutboxRecord[]): Promise<void>
  [Symbol.asyncDispose](): Promise<void>
}

export type SqlKind = 'postgres' | 'pglite' | 'mysql' | 'sqlite'

export interface SqlStore extends AnyStore {
  readonly kind: SqlKind
  createSchema(): Promise<void>
  /** Talks to nobody. */
  printSchema(): string
  validateSchema(): Promise<void>
  cleanInbox(options: { readonly window: number; readonly limit: number }): Promise<number>
  /** Outside of transactions. */
  query(sql: string, parameters?: readonly unknown[]): Promise<readonly Row[]>
  /** A statement that makes or removes something, outside of transactions. */
  define(sql: string): Promise<void>
  /** In the transaction of the message that is being handled. */
  change(sql: string, parameters: readonly unknown[]): Promise<void>
  /** A quoted name, with its schema, to be put into a statement. `ackord_inbox` is `table('inbox')`. */
  table(name: string): string
  /** Whether a notification that is sent here is heard on a connection that listens; PostgreSQL only. */
  hearsNotifications?(): Promise<boolean>
  /** SQLite only. */
  readonly file?: string | undefined
}

export interface RedisStore extends AnyStore {
  readonly kind: 'redis'
  readonly tag: string
  /** Whether the user may do all that the scripts of a Lua outbox do, and whether it has this order; default: either. Without one there is nothing to find out. */
  verify(order?: OutboxChoices['order']): Promise<void>
  /** A command, outside of transactions. */
  send(command: string, ...args: readonly (string | number)[]): Promise<unknown>
  /** Adds to a list in the transaction of the message that is being handled. */
  push(key: string, value: string): Promise<void>
  /** Removes every key that begins so. */
  removeKeys(start: string): Promise<void>
  checkDurability(): ReturnType<typeof import('@ackord/redis').checkDurability>
}

export type Store = SqlStore | RedisStore
