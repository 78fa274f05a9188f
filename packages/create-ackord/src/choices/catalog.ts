/** A value of a flag, as the questions show it. */
export interface Option<Value extends string = string> {
  readonly value: Value
  readonly label: string
  readonly hint?: string
}

export type Store = 'postgres' | 'mysql' | 'sqlite' | 'redis'
export type Broker = 'rabbitmq' | 'nats' | 'kafka' | 'redis-streams' | 'http'
export type Framework = 'none' | 'fastify' | 'hono' | 'nestjs'
export type Client = 'pg' | 'mysql2' | 'sqlite' | 'redis' | 'ioredis' | 'drizzle' | 'kysely'

export const stores: readonly Option<Store>[] = [
  { value: 'postgres', label: 'PostgreSQL' },
  { value: 'mysql', label: 'MariaDB or MySQL' },
  { value: 'sqlite', label: 'SQLite', hint: 'one file, no server' },
  { value: 'redis', label: 'Redis', hint: 'durability depends on its settings' },
]

export const brokers: readonly Option<Broker>[] = [
  { value: 'rabbitmq', label: 'RabbitMQ' },
  { value: 'nats', label: 'NATS JetStream' },
  { value: 'kafka', label: 'Kafka' },
  { value: 'redis-streams', label: 'Redis Streams' },
  { value: 'http', label: 'HTTP', hint: 'CloudEvents, no server' },
]

export const frameworks: readonly Option<Framework>[] = [
  { value: 'none', label: 'None', hint: 'messages only' },
  { value: 'fastify', label: 'Fastify' },
  { value: 'hono', label: 'Hono' },
  { value: 'nestjs', label: 'NestJS' },
]

/** The clients and ORMs of each store. The first one is the default. */
export const clients: Readonly<Record<Store, readonly [Option<Client>, ...Option<Client>[]]>> = {
  postgres: [
    { value: 'pg', label: 'pg' },
    { value: 'drizzle', label: 'Drizzle' },
    { value: 'kysely', label: 'Kysely' },
  ],
  mysql: [
    { value: 'mysql2', label: 'mysql2' },
    { value: 'drizzle', label: 'Drizzle' },
    { value: 'kysely', label: 'Kysely' },
  ],
  sqlite: [{ value: 'sqlite', label: '@photostructure/sqlite', hint: 'the API of node:sqlite, also on Node 20' }],
  redis: [
    { value: 'redis', label: 'node-redis' },
    { value: 'ioredis', label: 'ioredis' },
  ],
}

/** The choices that `--yes` stands for. The client is the first one of the store. */
export const defaults: { readonly store: Store; readonly broker: Broker; readonly framework: Framework } = {
  store: 'postgres',
  broker: 'rabbitmq',
  framework: 'none',
}
