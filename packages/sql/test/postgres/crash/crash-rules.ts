import type { Middleware, Publisher, RouterOptions, Source } from '@ackord/core'
import type { OutboxStore, RelayOptions } from '@ackord/outbox'
import { type RabbitmqConnection, rabbitmqSource } from '@ackord/rabbitmq'
import { type Database, transactional } from '../../../src/index.ts'
import type { TestHandle } from '../../support/world.ts'

export const consumer = 'orders'
export const batchSize = 5

/** The parts of a service. A mutant replaces one of them. */
export interface CrashRules {
  source(connection: RabbitmqConnection, queue: string): Source
  /** The middleware around the handler. `publisher` is for mutants that publish directly. */
  middleware(database: Database<TestHandle>, destination: string, publisher: Publisher): Middleware
  /** The business write. */
  save(database: Database<TestHandle>, order: string): Promise<void>
  /** The attributes that the handler sets on its event in addition to type and data. */
  eventAttributes(): { readonly id?: string }
  /** The store that the relay reads from. */
  store(store: OutboxStore): OutboxStore
  /** The publisher that the relay uses. */
  publisher(publisher: Publisher): Publisher
  readonly router: RouterOptions
  readonly relay: Partial<RelayOptions>
}

/** A correct service. */
export const crashRules: CrashRules = {
  source: (connection, queue) => rabbitmqSource(connection, { queue, prefetch: 8 }),
  middleware: (database, destination) => transactional(database, { inbox: { consumer }, outbox: { destination } }),
  async save(database, order) {
    await database.executor().query('INSERT INTO orders (id) VALUES ($1)', [order])
  },
  eventAttributes: () => ({}),
  store: (store) => store,
  publisher: (publisher) => publisher,
  router: { concurrency: 4 },
  relay: { batchSize, lease: 2000, publishTimeout: 1500, pollInterval: 20, maxPollInterval: 50 },
}
