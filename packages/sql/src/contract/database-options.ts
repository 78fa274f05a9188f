import { InvalidOptionError } from '@ackord/core'
import { checkChoice } from '@ackord/core/internal'
import type { Order } from '../records/row.ts'
import type { Dialect } from './dialect.ts'

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
}

/** The names given here, else those of the database, else the defaults. */
export function tablesOf(dialect: Dialect, options: TableOptions, defaults: TableOptions): Tables {
  const schema = options.schema ?? defaults.schema
  const prefix = schema === undefined ? '' : `${dialect.quote('schema', schema)}.`
  const named = (table: keyof TableNames) => {
    const name = options.names?.[table] ?? defaults.names?.[table] ?? `ackord_${table}`
    return prefix + dialect.quote(`names.${table}`, name)
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
  }
}

export interface OrderOptions {
  /**
   * `perKey`: events of one destination and ordering key (`partitionkey`) are published in the order of their commits. Transactions that store events
   * of the same key wait for each other, and each relay owns a share of the keys. Every writer and relay of a table must use the same value. Default:
   * `none`.
   */
  readonly order?: Order | undefined
}

/** The order given here, else that of the database. Throws if the database does not support it. */
export function orderOf(dialect: Dialect, asked: Order | undefined, byDefault: Order | undefined): Order {
  const order = checkChoice('order', asked ?? byDefault ?? 'none', ['none', 'perKey'])
  if (order === 'perKey' && dialect.store.ownership === undefined) {
    throw new InvalidOptionError('order', "'perKey' is not supported by this database. Omit it, or use another database.")
  }
  return order
}
