import type { Middleware, Publisher, RouterOptions, Source } from '@ackord/core'
import type { OutboxStore, RelayOptions } from '@ackord/outbox'
import { type RabbitmqConnection, rabbitmqSource } from '@ackord/rabbitmq'
import { type Database, transactional } from '../../../src/index.ts'
import type { TestHandle } from '../../support/world.ts'

export const consumer = 'orders'
export const batchSize = 5

/** What a service is made of; a mutant replaces a part. */
export interface CrashRules {
  source(connection: RabbitmqConnection, queue: string): Source
  /** Around the handler. `publisher` is for those that publish by themselves. */
  middleware(database: Database<TestHandle>, destination: string, publisher: Publisher): Middleware
  /** The business write. */
  save(database: Database<TestHandle>, order: string): Promise<void>
  /** What the handler gives its event beyond type and data. */
  eventAttributes(): { readonly id?: string }
  /** What the relay reads. */
  store(store: OutboxStore): OutboxStore
  /** What the relay sends with. */
  publisher(publisher: Publisher): Publisher
  readonly router: RouterOptions
  readonly relay: Partial<RelayOptions>
}

/** As a service should be. */
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
