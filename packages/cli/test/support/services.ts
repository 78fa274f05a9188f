import { Message, silentLogger } from '@ackord/core'
import type { NewOutboxRecord } from '@ackord/outbox'
import { ownName } from '../../../../scripts/test-run.mjs'
import type { Broker } from '../../src/brokers/broker.ts'
import { openBroker } from '../../src/brokers/open-broker.ts'
import { Secrets } from '../../src/output/secrets.ts'
import { openStore } from '../../src/stores/open-store.ts'
import type { Store, StoreLocation } from '../../src/stores/store.ts'
import { emptyDirectory, openHere } from './ackord.ts'

export const postgresUrl: string = process.env['POSTGRES_URL'] ?? 'postgres://postgres@127.0.0.1:5432/test'
export const mariadbUrl: string = process.env['MARIADB_URL'] ?? 'mysql://root@127.0.0.1:3306/test'
export const redisUrl: string = process.env['REDIS_URL'] ?? 'redis://127.0.0.1:6379'
export const rabbitmqUrl: string = process.env['RABBITMQ_URL'] ?? 'amqp://guest:guest@127.0.0.1:5672'
/** The URL of the cluster that `scripts/services` runs, as the command expects it. */
export const clusterUrl: string = `redis+cluster://${(process.env['REDIS_CLUSTER_URLS'] ?? '').replaceAll('redis://', '')}`
export const natsUrl: string = process.env['NATS_URL'] ?? 'nats://127.0.0.1:4222'
export const mqttUrl: string = process.env['MQTT_URL'] ?? 'mqtt://127.0.0.1:1883'
/** The emulator of SQS that `scripts/services` runs, as the command expects it. */
export const sqsUrl: string = (process.env['SQS_URL'] ?? 'http://127.0.0.1:4566').replace('http://', 'sqs://test:test@')

/** A store with unique names, and the arguments that select it. */
export interface TestStore extends AsyncDisposable {
  readonly store: Store
  readonly args: readonly string[]
  /** Appends records of one destination, in batches. */
  fill(destination: string, count: number): Promise<void>
  /** Parks all ready records. */
  park(error?: string): Promise<void>
  count(state: 'ready' | 'waiting' | 'leased' | 'parked' | 'published'): Promise<number>
}

export function record(destination: string, id: string, more: Record<string, string> = {}): NewOutboxRecord {
  const attributes = { id, type: 'order.placed', source: '/test', specversion: '1.0', datacontenttype: 'application/json', ...more }
  return { destination, message: new Message(new TextEncoder().encode(`{"order":"${id}"}`), attributes) }
}

/** `more`: for Redis, the kind of outbox; for SQL, the prefix of the tables. */
export async function openTestStore(
  url: string = `sqlite:${emptyDirectory()}/test.db`,
  { prefix, ...more }: Pick<StoreLocation, 'outbox' | 'shards' | 'prefix'> = {},
): Promise<TestStore> {
  const name = `cli_test_${ownName()}`
  const location: StoreLocation = url.startsWith('redis') ? { tag: [name], ...more } : { prefix: prefix ?? `${name}_` }
  const store = await openStore(url, { option: 'url', location: location, logger: silentLogger, secrets: new Secrets(), create: true })
  if (store.kind === 'sqlite') openHere.add(url)
  if (store.kind !== 'redis') await store.createSchema()
  const outbox = store.outbox({ logger: silentLogger })
  const options = Object.entries(more).flatMap(([option, value]) => [`--${option}`, String(value)])
  return {
    store,
    args: ['--store', url, ...(store.kind === 'redis' ? ['--tag', name, ...options] : ['--prefix', location.prefix ?? ''])],
    async fill(destination, count) {
      for (let from = 0; from < count; from += 500) {
        const size = Math.min(500, count - from)
        await store.append(Array.from({ length: size }, (_, index) => record(destination, `${destination}-${from + index}`)))
      }
    },
    async park(error = 'It is rejected.') {
      for (;;) {
        const claims = await outbox.claim({ limit: 500, lease: 30_000 })
        if (claims.length === 0) return
        await outbox.settle(claims.map(({ id, token }) => ({ id, token, result: 'parked', error })))
      }
    },
    async count(state) {
      const { destinations } = await outbox.stats()
      return destinations.reduce((sum, counts) => sum + counts[state], 0)
    },
    async [Symbol.asyncDispose]() {
      openHere.delete(url)
      // Removes the records of all shards.
      if (store.kind === 'redis') await store.removeKeys(`{${name}`)
      else if (store.kind !== 'sqlite') await dropAll(store)
      await store[Symbol.asyncDispose]()
    },
  }
}

async function dropAll(store: Extract<Store, { kind: 'postgres' | 'mysql' | 'sqlite' | 'pglite' }>): Promise<void> {
  for (const name of [
    'inbox',
    'log',
    'cursors',
    'taken',
    'readers',
    'outbox',
    'hands',
    'partitions',
    'relays',
    'notes',
    'idempotency',
    'process',
    'inbox_sealed',
    'meta',
    'outbox_locks',
  ]) {
    await store.define(`DROP TABLE IF EXISTS ${store.table(name)}`)
  }
  if (store.kind !== 'postgres') return
  for (const name of ['append', 'keep', 'valid', 'inbox_insert']) await store.define(`DROP FUNCTION IF EXISTS ${store.table(name)}`)
}

/** A new topic at a broker. */
export interface TestTopic extends AsyncDisposable {
  readonly broker: Broker
  readonly topic: string
  /** Resolves to the ids of this many messages, each acked. */
  read(count: number): Promise<readonly string[]>
  /** Reads until there are this many distinct ids, including those seen before. */
  readMore(seen: readonly string[], distinct: number): Promise<ReadonlySet<string>>
}

export async function openTestTopic(url: string): Promise<TestTopic> {
  const broker = await openBroker(url, { option: 'url', logger: silentLogger, secrets: new Secrets() })
  const topic = `cli-test-${ownName()}`
  await broker.createTopic(topic)
  const source = broker.source(topic)
  async function* ids(): AsyncGenerator<string, void, void> {
    const acks: Promise<boolean>[] = []
    try {
      for await (const message of source.messages({ signal: AbortSignal.timeout(40_000) })) {
        // Collected and not awaited one by one, because each may be a round trip.
        acks.push(message.ack())
        yield message.id ?? ''
      }
    } finally {
      await Promise.all(acks)
    }
    throw new Error('No more messages arrived.')
  }
  return {
    broker,
    topic,
    async read(count) {
      const read: string[] = []
      for await (const id of ids()) if (read.push(id) >= count) break
      return read
    },
    async readMore(seen, distinct) {
      const all = new Set(seen)
      for await (const id of ids()) if (all.add(id).size >= distinct) break
      return all
    },
    async [Symbol.asyncDispose]() {
      await source[Symbol.asyncDispose]()
      await broker.removeTopic(topic)
      await broker[Symbol.asyncDispose]()
    },
  }
}
