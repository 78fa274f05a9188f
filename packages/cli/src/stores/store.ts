import type { Logger, Middleware } from '@ackord/core'
import type { InboxAdmin, NewOutboxRecord, OutboxAdmin, OutboxStore, ProcessAdmin, ProcessStore } from '@ackord/outbox'
import type { Order, OutboxMode, Row, SchemaOptions } from '@ackord/sql'

/** Which outbox on the server: shared by all commands on a store. */
export interface StoreLocation {
  /** The namespace of the tables; SQL only. */
  readonly schema?: string | undefined
  /** The prefix of the table names; SQL only. Default: `ackord_`. */
  readonly prefix?: string | undefined
  /** The name of the outbox in its keys; Redis only. Default: `outbox`, of a Lua outbox `lua-outbox`. */
  readonly stream?: string | undefined
  /** The hash tags of the outbox; Redis only; a Lua outbox has one. Default: `ackord`. */
  readonly tag?: readonly string[] | undefined
  /** The kind of outbox; Redis only. Default: `stream`. */
  readonly outbox?: 'stream' | 'lua' | undefined
  /** The number of shards; Lua outbox only. Default: 1. */
  readonly shards?: number | undefined
}

export interface OutboxChoices {
  /** Default: `none`, and in log mode `perKey`. */
  readonly order?: Order | undefined
  /** `log` is for PostgreSQL only. Default: `log` if it has been used when the store was connected to, else `table`. */
  readonly mode?: OutboxMode | undefined
  /** Whether published records are kept; SQL and the Lua outbox only. Default: false. */
  readonly retain?: boolean | undefined
  /** In log mode, with `retain`: milliseconds for which they are kept at least. */
  readonly keepPublished?: number | undefined
  /** Whether to listen for notifications, on a dedicated connection; PostgreSQL only. Default: false. */
  readonly listen?: boolean | undefined
  readonly logger: Logger
}

type AdminOutbox = OutboxStore & OutboxAdmin

interface ServiceOptions {
  readonly consumer: string
  readonly destination: string
  readonly onDuplicate?: (() => void) | undefined
}

/** The operations of SQL databases and Redis that the commands use. */
interface AnyStore {
  /** For output, without secrets. */
  readonly address: string
  /** One round trip. Rejects if the server cannot be reached, or denies access. */
  connect(): Promise<void>
  outbox(choices: OutboxChoices): AdminOutbox
  /** Its entries, for operators. */
  inbox(logger: Logger): InboxAdmin
  /** The instances of processes, for operators. In Redis those of the first hash tag. */
  processes(): ProcessStore & ProcessAdmin
  /** The middleware of a service: inbox, transaction and outbox. */
  transactional(options: ServiceOptions): Middleware
  /** Stores the records in a transaction of its own. */
  append(records: readonly NewOutboxRecord[]): Promise<void>
  [Symbol.asyncDispose](): Promise<void>
}

export type SqlKind = 'postgres' | 'pglite' | 'mysql' | 'sqlite'

export type SchemaChoices = Pick<SchemaOptions, 'inbox'>

export interface SqlStore extends AnyStore {
  readonly kind: SqlKind
  createSchema(options?: SchemaChoices): Promise<void>
  /** Needs no connection. */
  printSchema(options?: SchemaChoices): string
  validateSchema(options?: SchemaChoices): Promise<void>
  cleanInbox(options: { readonly window: number; readonly limit: number }): Promise<number>
  cleanIdempotency(options: { readonly limit: number }): Promise<number>
  cleanProcesses(options: { readonly limit: number }): Promise<number>
  /** Runs a query outside of transactions. */
  query(sql: string, parameters?: readonly unknown[]): Promise<readonly Row[]>
  /** Runs a DDL statement, outside of transactions. */
  define(sql: string): Promise<void>
  /** Runs a statement in the transaction of the current message. */
  change(sql: string, parameters: readonly unknown[]): Promise<void>
  /** A quoted and qualified table name for use in a statement. `ackord_inbox` is `table('inbox')`. */
  table(name: string): string
  /** Whether the log mode has been used here, as of the last `connect()`; PostgreSQL only. */
  usesLog(): boolean
  /** Whether a notification sent here is received on a listening connection; PostgreSQL only. */
  receivesNotifications?(): Promise<boolean>
  /** SQLite only. */
  readonly file?: string | undefined
}

export interface RedisStore extends AnyStore {
  readonly kind: 'redis'
  readonly outboxKind: 'stream' | 'lua'
  /** The user of the connection. */
  readonly user: string
  /** The first of the hash tags. */
  readonly tag: string
  /** The hash tags of all keys of the outbox: with several shards, one for each. */
  readonly tags: readonly string[]
  /**
   * Whether the user may run everything that the scripts of a Lua outbox need, and whether the outbox has this order; default: any. Does nothing for
   * other outboxes.
   */
  verify(order?: OutboxChoices['order']): Promise<void>
  /** Runs a command, outside of transactions. */
  send(command: string, ...args: readonly (string | number)[]): Promise<unknown>
  /** Appends to a list in the transaction of the current message. */
  push(key: string, value: string): Promise<void>
  /** Removes every key with this prefix. */
  removeKeys(start: string): Promise<void>
  checkDurability(): ReturnType<typeof import('@ackord/redis').checkDurability>
}

export type Store = SqlStore | RedisStore
