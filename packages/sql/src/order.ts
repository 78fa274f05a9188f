import { InvalidOptionError } from '@ackord/core'
import { checkChoice } from '@ackord/core/internal'
import type { Dialect } from './dialect.ts'

export type Order = 'none' | 'perKey'

export interface OrderOptions {
  /**
   * `perKey`: events of one destination and ordering key (`partitionkey`) are published in the order of their commits. Transactions that store
   * events of the same key wait for each other, and each relay owns a share of the keys. Every writer and relay of a table must have the same. Default: `none`.
   */
  readonly order?: Order | undefined
}

/** What was asked for here, else what the database was made with. Throws where the database cannot do it. */
export function orderOf(dialect: Dialect, asked: Order | undefined, byDefault: Order | undefined): Order {
  const order = checkChoice('order', asked ?? byDefault ?? 'none', ['none', 'perKey'])
  if (order === 'perKey' && dialect.store.ownership === undefined) {
    throw new InvalidOptionError('order', "'perKey' is not there for this database yet; leave it out, or use another database.")
  }
  return order
}
