import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { stripVTControlCharacters } from 'node:util'
import { Cluster } from 'ioredis'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { startKafkaMock } from '../../../../scripts/servers/index.mjs'
import { isProof } from '../../../../scripts/test-depth.mjs'
import { ownName } from '../../../../scripts/test-run.mjs'
import { parseServiceUrl } from '../../src/settings/urls.ts'
import { connectRedis } from '../../src/stores/redis-client.ts'
import { Ackord, ackord, type Ended, emptyDirectory, start } from '../support/ackord.ts'
import { bundleMain, main } from '../support/bundle-main.ts'
import {
  clusterUrl,
  mariadbUrl as mariadbServer,
  mqttUrl,
  natsUrl,
  openTestStore,
  postgresUrl as postgresServer,
  rabbitmqUrl,
  redisUrl as redisServer,
  sqsUrl,
} from '../support/services.ts'

beforeAll(bundleMain)

// A demo spends most of its time waiting for leases to expire.
vi.setConfig({ maxConcurrency: 10 })

/** Stores that no other test uses: everything left there at the end comes from a demo. */
const own = `cli_demo_${ownName()}`
const postgresUrl = changed(postgresServer, (url) => url.searchParams.set('options', `-c search_path=${own}`))
const mariadbUrl = changed(mariadbServer, (url) => {
  url.pathname = own
})
const redisUrl = changed(redisServer, (url) => {
  url.pathname = '7'
})

function changed(text: string, change: (url: URL) => void): string {
  const url = new URL(text)
  change(url)
  return url.href
}

beforeAll(() => define('CREATE'))
afterAll(() => define('DROP'))

async function define(what: 'CREATE' | 'DROP'): Promise<void> {
  await using postgres = await openTestStore(postgresServer)
  await using mariadb = await openTestStore(mariadbServer)
  if (postgres.store.kind === 'redis' || mariadb.store.kind === 'redis') throw new Error('Expected SQL databases.')
  await postgres.store.define(`${what} SCHEMA ${own}${what === 'DROP' ? ' CASCADE' : ''}`)
  await mariadb.store.define(`${what} DATABASE ${own}`)
}

/** The remaining data of demos in the stores. */
async function leftovers(): Promise<readonly unknown[]> {
  await using postgres = await openTestStore(postgresServer)
  await using mariadb = await openTestStore(mariadbServer)
  await using redis = await openTestStore(redisUrl)
  if (postgres.store.kind === 'redis' || mariadb.store.kind === 'redis' || redis.store.kind !== 'redis') throw new Error('Wrong stores.')
  return [
    ...(await postgres.store.query(
      `SELECT relname AS name FROM pg_class WHERE relnamespace = '${own}'::regnamespace
       UNION ALL SELECT proname FROM pg_proc WHERE pronamespace = '${own}'::regnamespace`,
    )),
    ...(await mariadb.store.query(`SELECT table_name AS name FROM information_schema.tables WHERE table_schema = '${own}'`)),
    ...((await redis.store.send('KEYS', '*')) as string[]),
    ...(await keysOfCluster('*ackord-demo-*')),
  ]
}

async function keysOfCluster(pattern: string): Promise<readonly string[]> {
  const client = await connectRedis(parseServiceUrl('url', clusterUrl, []))
  if (!(client instanceof Cluster)) throw new Error('Expected a cluster client.')
  const keys = await Promise.all(client.nodes('master').map((node) => node.keys(pattern)))
  client.disconnect()
  return keys.flat()
}

function expectGood(ended: Ended, orders: number): void {
  expect(ended.stderr).toBe('')
  const { code, last } = ended
  expect(last).toEqual({
    orders,
    applied: orders,
    events_published: orders,
    duplicates_skipped: expect.any(Number),
    lost: 0,
    applied_twice: 0,
  })
  // The messages that were sent twice, and those that the killed service had not acked.
  expect(last['duplicates_skipped']).toBeGreaterThan(orders / 3)
  expect(code).toBe(0)
}

/** Every store and every broker. PostgreSQL in this process, which takes seconds to start, is tested separately. */
const stores: Readonly<Record<string, readonly string[]>> = {
  PostgreSQL: ['--store', postgresUrl],
  MariaDB: ['--store', mariadbUrl],
  SQLite: ['--store', 'sqlite:'],
  Redis: ['--store', redisUrl],
  'Redis with the Lua outbox': ['--store', redisUrl, '--outbox', 'lua'],
  'a Redis Cluster': ['--store', clusterUrl],
  'a Redis Cluster with the Lua outbox': ['--store', clusterUrl, '--outbox', 'lua'],
}
const brokers: Readonly<Record<string, () => string>> = {
  // First, because it takes the longest.
  'a Kafka emulator': () => kafka?.url ?? '',
  memory: () => 'memory:',
  RabbitMQ: () => rabbitmqUrl,
  NATS: () => natsUrl,
  MQTT: () => mqttUrl,
  'Redis Streams': () => redisUrl,
  'Redis Streams on a cluster': () => clusterUrl,
  'an SQS emulator': () => sqsUrl,
}
let kafka: Awaited<ReturnType<typeof startKafkaMock>> | undefined
const temporary = emptyDirectory()

beforeAll(async () => {
  vi.stubEnv('TMPDIR', temporary)
  kafka = await startKafkaMock()
})
afterAll(async () => {
  vi.unstubAllEnvs()
  await kafka?.[Symbol.asyncDispose]()
})

async function runDemo(store: string, broker: string, orders: number): Promise<void> {
  const args = ['demo', '--orders', String(orders), ...(stores[store] ?? []), '--broker', brokers[broker]?.() ?? '']
  expectGood(await ackord(args), orders)
}

const withMany: readonly (readonly [store: string, broker: string])[] = [
  ['PostgreSQL', 'RabbitMQ'],
  ['MariaDB', 'NATS'],
  ['SQLite', 'memory'],
  ['Redis', 'Redis Streams'],
]
const pairs = Object.keys(brokers).flatMap((broker) => Object.keys(stores).map((store) => [store, broker] as const))
// Together with the runs of many orders, covers every store and every broker once; `make proof` runs every pair.
const diagonal: typeof pairs = [
  ['Redis with the Lua outbox', 'a Kafka emulator'],
  ['a Redis Cluster', 'Redis Streams on a cluster'],
  ['a Redis Cluster with the Lua outbox', 'RabbitMQ'],
  ['SQLite', 'MQTT'],
  ['SQLite', 'an SQS emulator'],
]
const others = (isProof ? pairs : diagonal).filter(([store, broker]) => !withMany.some((pair) => pair[0] === store && pair[1] === broker))

describe.concurrent('the demo with many orders', () => {
  it.each(withMany)('succeeds on %s and %s', (store, broker) => runDemo(store, broker, isProof ? 1000 : 150), 240_000)
})

it('has left no data anywhere, with many orders', nothingIsLeft)

it('runs on every store and with every broker', () => {
  const run = [...withMany, ...others]
  expect(new Set(run.map(([store]) => store))).toEqual(new Set(Object.keys(stores)))
  expect(new Set(run.map(([, broker]) => broker))).toEqual(new Set(Object.keys(brokers)))
})

describe.concurrent('the demo with 50 orders', () => {
  it.each(others)('succeeds on %s and %s', (store, broker) => runDemo(store, broker, 50), 240_000)
})

it('has left no data anywhere, with 50 orders', nothingIsLeft)

async function nothingIsLeft(): Promise<void> {
  expect([...(await leftovers()), ...readdirSync(temporary)]).toEqual([])
}

describe('the demo', () => {
  it('needs no server, and prints its progress', async () => {
    const ended = await ackord(['demo', '--orders', '50'])
    expectGood(ended, 50)
    expect(ended.stdout).toContain('the service is killed in the middle')
    expect(ended.stdout).toContain('The broker is down for events')
    expect(ended.stdout).toContain('0 lost, 0 applied twice.')
    expect(ended.stdout).toContain('docs/start/postgresql.md')
  })

  it('needs a broker only', async () => {
    expectGood(await ackord(['demo', '--orders', '50', '--broker', rabbitmqUrl]), 50)
  })

  it('removes an SQLite file that it created, and only its own tables from an existing one', async () => {
    const cwd = emptyDirectory()
    expectGood(await ackord(['demo', '--orders', '9', '--store', 'sqlite:new.db'], { cwd }), 9)
    expect(readdirSync(cwd)).toEqual([])
    expect((await ackord(['migrate', 'up', '--store', 'sqlite:mine.db'], { cwd })).code).toBe(0)
    expectGood(await ackord(['demo', '--orders', '9', '--store', 'sqlite:mine.db'], { cwd }), 9)
    expect(existsSync(join(cwd, 'mine.db'))).toBe(true)
    expect((await ackord(['status', '--store', 'sqlite:mine.db'], { cwd })).code).toBe(0)
  })

  it.each([60, 100])('wraps words on a terminal with %i columns, and ends with the next step instead of JSON', async (columns) => {
    const command = `stty cols ${columns} rows 40; ${process.execPath} ${main} demo --orders 30 --store sqlite:; echo "code=$?"`
    const demo = new Ackord(['script', '-qec', command, join(emptyDirectory(), 'typescript')], { stdin: 'pipe' })
    await demo.said('code=')
    demo.child.stdin?.end()
    await demo.ended
    expect(demo.stdout).toContain('code=0')
    // The progress bar clears what it has drawn before the next line.
    const lines = demo.stdout.split('\r\n').map((line) => stripVTControlCharacters(line.split('\u001b[J').at(-1) ?? ''))
    // The path of the file is one word.
    const words = lines.filter((line) => line.trim().includes(' '))
    expect(words.length).toBeGreaterThan(8)
    expect(Math.max(...words.map((line) => line.length))).toBeLessThanOrEqual(columns)
    const text = lines.join(' ').replaceAll(/ +/g, ' ')
    expect(text).toContain('some orders are committed and not acked, some events are published and not settled.')
    expect(text).toContain('0 lost, 0 applied twice.')
    expect(text).toContain('Next Write such a service: docs/start/sqlite.md')
    expect(text).not.toContain('"applied_twice"')
  })

  it('prints only JSON with --json', async () => {
    const ended = await ackord(['demo', '--orders', '9', '--json', '--store', 'sqlite:'])
    const lines = ended.stdout
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as Record<string, unknown>)
    expect(lines.slice(0, -1).every((line) => typeof line['step'] === 'string')).toBe(true)
    expect(lines.at(-1)).toMatchObject({ orders: 9, lost: 0 })
  })

  it('does not read its store from the environment or a file', async () => {
    const { code, stdout } = await ackord(['demo', '--orders', '3'], { env: { ACKORD_STORE: 'postgres://127.0.0.1:1/production' } })
    expect(stdout).toContain('Starting PostgreSQL in this process')
    expect(code).toBe(0)
  })
})

describe('a demo that is interrupted', () => {
  it.each([
    ['right after the start', 'orders arrive'],
    ['while the service is killed', 'killed in the middle'],
    ['after the new service started', 'A new service starts'],
  ])('%s removes its data', async (_, moment) => {
    const demo = start(['demo', '--orders', '600', '--store', postgresUrl, '--broker', redisUrl])
    await demo.said(moment)
    demo.child.kill('SIGINT')
    const { code, stderr } = await demo.ended
    expect(stderr).toBe('ackord: Interrupted.\n')
    expect(code).toBe(130)
    expect(await leftovers()).toEqual([])
  })

  it('by Ctrl-C on a terminal does so, too, and restores the terminal', async () => {
    const log = join(emptyDirectory(), 'typescript')
    // Ctrl-C reaches the whole terminal; the shell must report the exit code of the demo, whichever shell it is.
    const command = `trap : INT; stty cols 100 rows 30; ${process.execPath} ${main} demo --orders 3000 --store ${postgresUrl} --broker ${redisUrl}; echo "code=$?"; stty -a`
    // A pseudo-terminal: text written to its stdin counts as typed.
    const demo = new Ackord(['script', '-qec', command, log], { stdin: 'pipe' })
    await demo.said('orders arrive')
    await demo.said('events published')
    demo.child.stdin?.write('\u0003')
    await demo.said('code=130')
    await demo.said('isig icanon')
    demo.child.stdin?.end()
    await demo.ended
    // The cursor is shown as often as it was hidden.
    expect(demo.stdout.split('\u001b[?25h').length).toBe(demo.stdout.split('\u001b[?25l').length)
    expect(await leftovers()).toEqual([])
  })
})
