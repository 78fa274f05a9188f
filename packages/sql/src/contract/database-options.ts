import { InvalidOptionError } from '@ackord/core'
import { checkChoice } from '@ackord/core/internal'
import type { Order } from '../records/row.ts'
import type { AppendTarget, Dialect } from './dialect.ts'
import type { TableOptions, Tables } from './tables.ts'

/** Options that are given once, when the database is created, instead of to each of its functions. */
export interface FromOptions extends TableOptions, OrderOptions {}

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
