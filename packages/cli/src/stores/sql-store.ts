import { silentLogger } from '@ackord/core'
import {
  cleanIdempotency,
  cleanInbox,
  cleanProcesses,
  createSchema,
  type Database,
  type Notifications,
  printSchema,
  type Row,
  sqlInbox,
  sqlOutbox,
  sqlProcesses,
  type TableOptions,
  transactional,
  validateSchema,
} from '@ackord/sql'
import { usageError } from '../output/errors.ts'
import type { SqlKind, SqlStore, StoreLocation } from './store.ts'

/** The differences between the clients. */
export interface SqlClient<Handle> {
  readonly kind: SqlKind
  readonly address: string
  run(handle: Handle, sql: string, parameters: readonly unknown[]): Promise<readonly Row[]>
  /** Runs a DDL statement. Default: on the handle outside of transactions. */
  define?(sql: string): Promise<void>
  quote(name: string): string
  /** Only PostgreSQL supports notifications. */
  notifications?(): Notifications
  hearsNotifications?(): Promise<boolean>
  close(): Promise<void>
  readonly file?: string | undefined
}

const tableKinds = [
  'inbox',
  'outbox',
  'meta',
  'append',
  'valid',
  'relays',
  'partitions',
  'hands',
  'keep',
  'notes',
  'idempotency',
  'process',
  'log',
  'cursors',
  'taken',
  'readers',
] as const

export function tableOptions({ schema, prefix = 'ackord_', stream, tag, outbox, shards }: StoreLocation): TableOptions {
  if (stream !== undefined || tag !== undefined) throw usageError('--stream and --tag are for Redis; this store is an SQL database.')
  if (outbox !== undefined || shards !== undefined) throw usageError('--outbox and --shards are for Redis; this store is an SQL database.')
  return { schema, names: Object.fromEntries(tableKinds.map((kind) => [kind, prefix + kind])) }
}

export function sqlStore<Handle>(database: Database<Handle>, client: SqlClient<Handle>, location: StoreLocation): SqlStore {
  const { kind, address, file, quote } = client
  const prefix = location.prefix ?? 'ackord_'
  const query: SqlStore['query'] = (sql, parameters = []) => client.run(database.executor(), sql, parameters)
  let logIsUsed = false

  return {
    kind,
    address,
    file,
    query,
    async connect() {
      if (kind !== 'postgres' && kind !== 'pglite') await query('SELECT 1 AS one')
      else logIsUsed = isTrue(await query(logUsedSql, [[`${prefix}log`, `${prefix}cursors`], location.schema ?? null]))
    },
    usesLog: () => logIsUsed,
    outbox({ order, mode = logIsUsed ? 'log' : undefined, retain, keepPublished, listen = false, logger }) {
      if (listen && client.notifications === undefined) throw usageError(`--listen requires PostgreSQL; ${address} has no notifications.`)
      const notifications = listen ? client.notifications?.() : undefined
      return sqlOutbox(database, { order, mode, retain, keepPublished: mode === 'log' ? keepPublished : undefined, logger, notifications })
    },
    inbox: (logger) => sqlInbox(database, { logger }),
    transactional: ({ consumer, destination, onDuplicate }) =>
      transactional(database, { transaction: { logger: silentLogger }, inbox: { consumer, onDuplicate }, outbox: { destination } }),
    async append(records) {
      const outbox = sqlOutbox(database, { logger: silentLogger })
      await database.write((transaction) => outbox.append(transaction, records))
    },
    createSchema: (options) => createSchema(database, options),
    printSchema: (options) => printSchema(database, options),
    validateSchema: (options) => validateSchema(database, options),
    cleanInbox: (options) => cleanInbox(database, options),
    cleanIdempotency: (options) => cleanIdempotency(database, options),
    cleanProcesses: (options) => cleanProcesses(database, options),
    processes: () => sqlProcesses(database),
    async define(sql) {
      await (client.define?.(sql) ?? query(sql))
    },
    async change(sql, parameters) {
      await client.run(database.executor(undefined, { required: true }), sql, parameters)
    },
    ...(client.hearsNotifications !== undefined && { receivesNotifications: client.hearsNotifications }),
    table: (name) => (location.schema === undefined ? '' : `${quote(location.schema)}.`) + quote(prefix + name),
    [Symbol.asyncDispose]: () => client.close(),
  }
}

/**
 * Whether a part of the log or of its cursors has been written since it was emptied. Reads the catalogue only: there is no log in older tables, and users of table mode need no
 * privileges on it.
 */
const logUsedSql = `SELECT EXISTS (
  SELECT FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace JOIN pg_inherits AS i ON i.inhparent = c.oid
  WHERE c.relname = ANY($1::text[]) AND CASE WHEN $2::text IS NULL THEN pg_table_is_visible(c.oid) ELSE n.nspname = $2::text END
    AND pg_relation_size(i.inhrelid) > 0
) AS used`

function isTrue([row]: readonly Row[]): boolean {
  return row?.['used'] === true
}
