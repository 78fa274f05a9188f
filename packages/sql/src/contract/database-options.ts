import { InvalidOptionError } from '@ackord/core'
import { checkChoice } from '@ackord/core/internal'
import type { Order } from '../records/row.ts'
import type { AppendTarget, Dialect } from './dialect.ts'

/** Options that are given once, when the database is created, instead of to each of its functions. */
export interface FromOptions extends TableOptions, OrderOptions {}

export interface TableNames {
  readonly inbox: string
  readonly outbox: string
  readonly meta: string
  /** The function with which programs in other languages store events; PostgreSQL only. */
  readonly append: string
  /** The function that checks which rows the outbox may contain; PostgreSQL only. */
  readonly valid: string
  /** The relays that share the partitions, with order per key. */
  readonly relays: string
  /** The owner of each partition. */
  readonly partitions: string
  /** The claim journal: the records that relays have in flight. */
  readonly hands: string
  /** The function with which relays renew and share the partitions; PostgreSQL only. */
  readonly keep: string
  /** Small facts that relays and operators share: pauses, the list of relays, rates and the audit. */
  readonly notes: string
  /** The claims and answers of requests with an idempotency key. */
  readonly idempotency: string
  /** The log, in log mode; PostgreSQL only. Its parts are `ackord_log_0` and so on. */
  readonly log: string
  /** How far the log was read and published; PostgreSQL only. Its parts are `ackord_cursors_0` and so on. */
  readonly cursors: string
  /** Records of the log that an operator has moved to the outbox table; PostgreSQL only. */
  readonly taken: string
}

export interface TableOptions {
  /** Default: the first schema of the connection's search path; on MySQL, its database. */
  readonly schema?: string | undefined
  /** Default: `ackord_inbox`, `ackord_outbox`, `ackord_meta` and so on. */
  readonly names?: { readonly [Table in keyof TableNames]?: string | undefined } | undefined
}

/** Quoted and qualified, for use in statements. */
export interface Tables extends TableNames {
  /** As given, not quoted. */
  readonly schema: string | undefined
  /** The parts of the log and of its cursors, which are written and emptied in turn. */
  readonly leaves: readonly { readonly log: string; readonly cursors: string }[]
}

/** The number of parts of the log. One is written; the others are read until they are empty, so that there is one to switch to. */
const leafCount = 4

/** The names given here, else those of the database, else the defaults. */
export function tablesOf(dialect: Dialect, options: TableOptions, defaults: TableOptions): Tables {
  const schema = options.schema ?? defaults.schema
  const prefix = schema === undefined ? '' : `${dialect.quote('schema', schema)}.`
  const named = (table: keyof TableNames, suffix = '') => {
    const name = options.names?.[table] ?? defaults.names?.[table] ?? `ackord_${table}`
    return prefix + dialect.quote(`names.${table}`, name + suffix)
  }
  return {
    schema,
    inbox: named('inbox'),
    outbox: named('outbox'),
    meta: named('meta'),
    append: named('append'),
    valid: named('valid'),
    relays: named('relays'),
    partitions: named('partitions'),
    hands: named('hands'),
    keep: named('keep'),
    notes: named('notes'),
    idempotency: named('idempotency'),
    log: named('log'),
    cursors: named('cursors'),
    taken: named('taken'),
    leaves: Array.from({ length: leafCount }, (_, leaf) => ({ log: named('log', `_${leaf}`), cursors: named('cursors', `_${leaf}`) })),
  }
}

export interface OrderOptions {
  /**
   * `perKey`: events of one destination and ordering key (`partitionkey`) are published in the order of their commits. Transactions that store events
   * of the same key wait for each other, and each relay owns a share of the keys. Every writer and relay of a table must use the same value. Default:
   * `none`, and in log mode `perKey`.
   */
  readonly order?: Order | undefined
}

export interface ModeOptions {
  /**
   * `table`: a record is a row of the outbox table, which is deleted when it is published. `log`: records are appended to a log and never changed; relays remember how far they
   * have read it, and whole parts of it are emptied at once. It leaves no dead rows behind, and stays fast while another transaction holds an old snapshot. Always keeps the order
   * of each key. PostgreSQL only. Experimental. Default: `table`.
   */
  readonly mode?: OutboxMode | undefined
}

/** How an outbox stores its records. */
export interface StorageOptions extends OrderOptions, ModeOptions {}

export type OutboxMode = 'table' | 'log'

/** The same, with defaults applied. */
export interface Storage {
  readonly order: Order
  readonly mode: OutboxMode
}

/** The options given here, else those of the database. Throws if the database does not support them. */
export function storageOf(dialect: Dialect, asked: StorageOptions, byDefault: StorageOptions): Storage {
  const mode = checkChoice('mode', asked.mode ?? byDefault.mode ?? 'table', ['table', 'log'])
  if (mode === 'log' && dialect.store.log === undefined) {
    throw new InvalidOptionError('mode', "'log' is supported on PostgreSQL only. Omit it, or use PostgreSQL.")
  }
  const order = checkChoice('order', asked.order ?? byDefault.order ?? (mode === 'log' ? 'perKey' : 'none'), ['none', 'perKey'])
  if (mode === 'log' && order === 'none') {
    throw new InvalidOptionError('order', "'none' is not supported in log mode, which always keeps the order of each key. Omit it.")
  }
  if (order === 'perKey' && dialect.store.ownership === undefined) {
    throw new InvalidOptionError('order', "'perKey' is not supported by this database. Omit it, or use another database.")
  }
  return { order, mode }
}

/** Where an outbox with these options stores its records. */
export function appendTarget({ outbox, log, meta }: Tables, { mode }: Storage): AppendTarget {
  return mode === 'log' ? { outbox, log: { table: log, meta } } : { outbox }
}
