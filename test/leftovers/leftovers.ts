import { chmodSync, mkdirSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { jetstreamManager } from '@nats-io/jetstream'
import { connect } from '@nats-io/transport-node'
import { Redis } from 'ioredis'
import { createConnection } from 'mysql2/promise'
import pg from 'pg'
import { runId } from '../../scripts/test-run.mjs'
import type { Ground } from './ground.ts'
import { rabbitmqGround } from './rabbitmq-ground.ts'

/**
 * For vitest's `globalSetup`: assigns the run a directory for temporary files and a name prefix for resources on servers, and fails it at the end if
 * anything is left. Other runs may use the same servers at the same time.
 */
export default async function watchLeftovers(): Promise<() => Promise<void>> {
  process.env['ACKORD_TEST_RUN'] = runId
  const directory = join(tmpdir(), `ackord-test-${runId}`)
  mkdirSync(directory)
  // World-writable like the default directory: servers that tests start run under their own accounts.
  chmodSync(directory, 0o1777)
  const usual = process.env['TMPDIR']
  process.env['TMPDIR'] = directory

  return async () => {
    if (usual === undefined) delete process.env['TMPDIR']
    else process.env['TMPDIR'] = usual
    const left: string[] = []
    for (const ground of [
      files(directory, () => true),
      files('/dev/shm', (name) => name.includes(runId)),
      postgres,
      mariadb,
      nats,
      ...rabbitmq(),
      sqs,
      sns,
      s3,
    ]) {
      const found = await removeFrom(ground)
      left.push(...found.map((name) => `${ground.name}: ${name}`))
    }
    // Not reported: most keys expire, so a key that a test forgot cannot be distinguished from one that belongs to the code under test.
    for (const ground of redis()) await removeFrom(ground)
    rmSync(directory, { recursive: true, force: true })
    if (left.length === 0) return
    // Vitest prints an error thrown here but does not fail the run, so the exit code is set as well.
    process.exitCode = 1
    throw new Error(
      `Tests have left something behind:\n${left.slice(0, 50).join('\n')}${left.length > 50 ? `\nand ${left.length - 50} more` : ''}`,
    )
  }
}

/** Resolves to the names of the removed resources; empty if the server is not running. */
async function removeFrom({ list, remove }: Ground): Promise<readonly string[]> {
  const found = await list().catch(() => [])
  if (found.length > 0) await remove(found)
  return found
}

function files(directory: string, isOurs: (name: string) => boolean): Ground {
  return {
    name: directory,
    list: async () => readdirSync(directory).filter(isOurs),
    async remove(names) {
      for (const name of names) rmSync(join(directory, name), { recursive: true, force: true })
    },
  }
}

const postgres: Ground = {
  name: 'schema of PostgreSQL',
  list: () =>
    onPostgres(async (client) =>
      (await client.query('SELECT nspname AS name FROM pg_namespace WHERE nspname LIKE $1', [`%${runId}%`])).rows.map(({ name }) =>
        String(name),
      ),
    ),
  remove: (names) =>
    onPostgres(async (client) => {
      for (const name of names) await client.query(`DROP SCHEMA ${client.escapeIdentifier(name)} CASCADE`)
    }),
}

async function onPostgres<T>(work: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client(process.env['POSTGRES_URL'] ?? 'postgres://postgres@127.0.0.1:5432/test')
  await client.connect()
  try {
    return await work(client)
  } finally {
    await client.end()
  }
}

const mariadb: Ground = {
  name: 'database of MariaDB',
  list: () =>
    onMariadb(async (query) =>
      (await query('SELECT SCHEMA_NAME AS name FROM information_schema.SCHEMATA WHERE SCHEMA_NAME LIKE ?', [`%${runId}%`])).map(
        ({ name }) => String(name),
      ),
    ),
  remove: (names) =>
    onMariadb(async (query) => {
      for (const name of names) await query(`DROP DATABASE \`${name}\``, [])
    }),
}

async function onMariadb<T>(
  work: (query: (sql: string, values: unknown[]) => Promise<Record<string, unknown>[]>) => Promise<T>,
): Promise<T> {
  const connection = await createConnection(process.env['MARIADB_URL'] ?? process.env['MYSQL_URL'] ?? 'mysql://root@127.0.0.1:3306/test')
  try {
    return await work(async (sql, values) => (await connection.query(sql, values))[0] as Record<string, unknown>[])
  } finally {
    await connection.end()
  }
}

/** By plain requests: the emulator checks no signatures, and the client takes long to load. */
const sqs: Ground = {
  name: 'queue of SQS',
  async list() {
    const { QueueUrls: urls = [] } = await requestSqs('ListQueues', {})
    return urls.filter((url) => url.includes(runId))
  },
  async remove(names) {
    for (const name of names) await requestSqs('DeleteQueue', { QueueUrl: name })
  },
}

async function requestSqs(operation: string, input: object): Promise<{ readonly QueueUrls?: readonly string[] }> {
  const response = await fetch(process.env['SQS_URL'] ?? 'http://127.0.0.1:4566', {
    method: 'POST',
    headers: { 'content-type': 'application/x-amz-json-1.0', 'x-amz-target': `AmazonSQS.${operation}` },
    body: JSON.stringify(input),
  })
  const text = await response.text()
  if (!response.ok) throw new Error(text)
  return text === '' ? {} : (JSON.parse(text) as { readonly QueueUrls?: readonly string[] })
}

const sns: Ground = {
  name: 'topic of SNS',
  list: async () => namesIn(await requestSns({ Action: 'ListTopics' }), 'TopicArn').filter((arn) => arn.includes(runId)),
  async remove(names) {
    for (const name of names) await requestSns({ Action: 'DeleteTopic', TopicArn: name })
  },
}

function requestSns(parameters: Readonly<Record<string, string>>): Promise<string> {
  return requestText('/', { method: 'POST', body: new URLSearchParams({ ...parameters, Version: '2010-03-31' }) })
}

const s3: Ground = {
  name: 'bucket of S3',
  list: async () => namesIn(await requestText('/'), 'Name').filter((name) => name.includes(runId)),
  async remove(names) {
    for (const name of names) {
      const keys = namesIn(await requestText(`/${name}?list-type=2`), 'Key')
      for (const key of keys) await requestText(`/${name}/${key}`, { method: 'DELETE' })
      await requestText(`/${name}`, { method: 'DELETE' })
    }
  },
}

async function requestText(path: string, init: RequestInit = {}): Promise<string> {
  const response = await fetch(`${process.env['SQS_URL'] ?? 'http://127.0.0.1:4566'}${path}`, init)
  const text = await response.text()
  if (!response.ok) throw new Error(text)
  return text
}

/** The texts of all elements of this name. */
function namesIn(xml: string, element: string): string[] {
  return [...xml.matchAll(new RegExp(`<${element}>([^<]*)<`, 'g'))].map(([, text = '']) => text)
}

const nats: Ground = {
  name: 'stream of NATS',
  list: () =>
    onNats(async ({ streams }) => {
      const names: string[] = []
      for await (const name of streams.names()) if (name.includes(runId)) names.push(name)
      return names
    }),
  remove: (names) =>
    onNats(async ({ streams }) => {
      for (const name of names) await streams.delete(name)
    }),
}

async function onNats<T>(work: (manager: Awaited<ReturnType<typeof jetstreamManager>>) => Promise<T>): Promise<T> {
  const connection = await connect({ servers: process.env['NATS_URL'] ?? 'nats://127.0.0.1:4222', maxReconnectAttempts: 0 })
  try {
    return await work(await jetstreamManager(connection))
  } finally {
    await connection.close()
  }
}

/** The shared broker, and the one that speaks AMQP 1.0 if there is one. */
function rabbitmq(): Ground[] {
  const urls = [process.env['RABBITMQ_URL'] ?? 'amqp://guest:guest@127.0.0.1:5672', process.env['AMQP_URL']]
  return urls.filter((url) => url !== undefined).map(rabbitmqGround)
}

function redis(): Ground[] {
  const urls = [process.env['REDIS_URL'] ?? 'redis://127.0.0.1:6379', ...(process.env['REDIS_CLUSTER_URLS']?.split(',') ?? [])]
  return urls.map((url) => ({
    name: `key of Redis at ${new URL(url).host}`,
    list: () =>
      onRedis(url, async (client) => {
        const keys: string[] = []
        for await (const some of client.scanStream({ match: `*${runId}*`, count: 1000 })) keys.push(...(some as string[]))
        return keys
      }),
    remove: (names) =>
      onRedis(url, async (client) => {
        for (const name of names) await client.unlink(name)
      }),
  }))
}

async function onRedis<T>(url: string, work: (client: Redis) => Promise<T>): Promise<T> {
  const client = new Redis(url, { lazyConnect: true, maxRetriesPerRequest: 0, retryStrategy: () => null })
  client.on('error', () => {})
  try {
    await client.connect()
    return await work(client)
  } finally {
    client.disconnect()
  }
}
