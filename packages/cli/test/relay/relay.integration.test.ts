import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { Message } from '@ackord/core'
import { outboxMetrics } from '@ackord/outbox'
import { fromIoredis } from '@ackord/redis'
import { luaOutbox } from '@ackord/redis/lua-outbox'
import { deferred, startFaultProxy } from '@ackord/testkit'
import { Redis } from 'ioredis'
import { beforeAll, describe, expect, it } from 'vitest'
import { exitCode } from '../../src/output/errors.ts'
import { version } from '../../src/version.ts'
import { type Ackord, ackord, start } from '../support/ackord.ts'
import { bundleMain } from '../support/bundle-main.ts'
import { parsePrometheusText } from '../support/prometheus-text.ts'
import {
  clusterUrl,
  mariadbUrl,
  natsUrl,
  openTestStore,
  openTestTopic,
  postgresUrl,
  rabbitmqUrl,
  redisUrl,
  type TestStore,
} from '../support/services.ts'
import { until } from '../support/until.ts'

beforeAll(bundleMain)

function startRelay(world: TestStore, url: string, ...args: readonly string[]): Ackord {
  return start(['relay', '--from', ...world.args.slice(1), '--to', url, '--json', ...args])
}

/** Metrics that every relay serves, beside those of `outboxMetrics`. */
const processMetrics = [
  'ackord_build_info',
  'process_resident_memory_bytes',
  'process_cpu_seconds_total',
  'process_start_time_seconds',
  'nodejs_eventloop_lag_p50_seconds',
  'nodejs_eventloop_lag_p99_seconds',
  'nodejs_eventloop_lag_max_seconds',
]
const servedByAll = Object.keys(outboxMetrics).length + processMetrics.length

function logOf(relay: Ackord, text: string): Record<string, unknown> {
  const line = relay.stdout.split('\n').find((each) => each.includes(text)) ?? '{}'
  return JSON.parse(line) as Record<string, unknown>
}

// Signals reach the relay in the same way with every store and broker; the resources to release differ.
describe.concurrent.each([
  ['PostgreSQL', 'RabbitMQ', postgresUrl, rabbitmqUrl, {}, ['SIGTERM', 'SIGINT', 'SIGHUP']],
  ['MariaDB', 'NATS', mariadbUrl, natsUrl, {}, ['SIGTERM', 'SIGINT']],
  ['SQLite', 'RabbitMQ', undefined, rabbitmqUrl, {}, ['SIGTERM', 'SIGINT']],
  ['Redis', 'Redis Streams', redisUrl, redisUrl, {}, ['SIGTERM', 'SIGINT']],
  ['Redis with the Lua outbox', 'RabbitMQ', redisUrl, rabbitmqUrl, { outbox: 'lua' }, ['SIGTERM', 'SIGHUP']],
  ['a Redis Cluster', 'Redis Streams on a cluster', clusterUrl, clusterUrl, {}, ['SIGTERM']],
  ['a Redis Cluster with the Lua outbox in three shards', 'NATS', clusterUrl, natsUrl, { outbox: 'lua', shards: 3 }, ['SIGTERM']],
] as const)('a relay from %s to %s', (_, __, storeUrl, brokerUrl, more, signals) => {
  it('publishes everything, with --map under another name, and stops at SIGTERM', async () => {
    await using world = await openTestStore(storeUrl, more)
    await using topic = await openTestTopic(brokerUrl)
    await world.fill('orders', 120)
    const relay = startRelay(world, brokerUrl, '--map', `orders=${topic.topic}`, '--name', 'first')
    const ids = await topic.read(120)
    expect(new Set(ids).size).toBe(120)
    relay.child.kill('SIGTERM')
    const { code, stderr } = await relay.ended
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    expect(logOf(relay, 'The relay has stopped.')).toMatchObject({ relay: 'first', published: 120, parked: 0 })
    expect(await leftIn(world)).toEqual({ ready: 0, leased: 0, parked: 0 })
  })

  it.each(signals)(
    'that receives %s in the middle of its work leaves nothing leased, and loses nothing',
    async (signal) => {
      await using world = await openTestStore(storeUrl, more)
      await using topic = await openTestTopic(brokerUrl)
      const total = 2000
      await world.fill(topic.topic, total)
      const relay = startRelay(world, brokerUrl, '--batch-size', '25')
      const before = await topic.read(1)
      relay.child.kill(signal)
      expect((await relay.ended).code).toBe(0)
      const left = await leftIn(world)
      expect(left).toMatchObject({ leased: 0, parked: 0 })
      expect(left.ready).toBeGreaterThan(0)
      // Records that are no longer in the store were published.
      const published = await topic.readMore(before, total - left.ready)
      if (signal !== 'SIGTERM') return

      const next = startRelay(world, brokerUrl)
      const after = await topic.readMore([...published], total)
      await until(async () => (await world.count('ready')) + (await world.count('leased')) === 0)
      next.child.kill('SIGTERM')
      expect((await next.ended).code).toBe(0)
      expect(after.size).toBe(total)
    },
    120_000,
  )
})

async function leftIn(world: TestStore): Promise<{ ready: number; leased: number; parked: number }> {
  return { ready: await world.count('ready'), leased: await world.count('leased'), parked: await world.count('parked') }
}

describe('concurrent relays', () => {
  it('share the records, also with the same name', async () => {
    await using world = await openTestStore(postgresUrl)
    await using topic = await openTestTopic(rabbitmqUrl)
    const relays = [1, 2].map(() => startRelay(world, rabbitmqUrl, '--name', 'twin', '--batch-size', '10', '--poll-interval', '10ms'))
    await Promise.all(relays.map((relay) => relay.said('The relay is running.')))
    await world.fill(topic.topic, 2000)
    const ids = await topic.read(2000)
    await until(async () => (await world.count('ready')) + (await world.count('leased')) === 0)
    for (const relay of relays) relay.child.kill('SIGTERM')
    const ended = await Promise.all(relays.map((relay) => relay.ended))
    expect(ended.map(({ code }) => code)).toEqual([0, 0])
    // Without a crash nothing is published twice.
    expect(new Set(ids).size).toBe(2000)
    const published = relays.map((relay) => Number(logOf(relay, 'The relay has stopped.')['published']))
    expect(published.reduce((sum, each) => sum + each, 0)).toBe(2000)
  })

  it('leave the destinations of other relays', async () => {
    await using world = await openTestStore()
    await using topic = await openTestTopic(rabbitmqUrl)
    await world.fill('not-ours', 3)
    await world.fill(topic.topic, 2)
    const relay = startRelay(world, rabbitmqUrl, '--destinations', topic.topic)
    expect((await topic.read(2)).length).toBe(2)
    relay.child.kill('SIGTERM')
    expect((await relay.ended).code).toBe(0)
    expect(await leftIn(world)).toEqual({ ready: 3, leased: 0, parked: 0 })
  })
})

describe('a relay with --order perKey', () => {
  it('publishes a Lua outbox in the order of each key, and is rejected without the option', async () => {
    await using world = await openTestStore(redisUrl, { outbox: 'lua' })
    await using topic = await openTestTopic(rabbitmqUrl)
    const client = new Redis(redisUrl)
    const numbers = Array.from({ length: 60 }, (_, number) => number)
    const records = numbers.map((number) => {
      const attributes = { id: `${number}`, type: 'a', source: '/test', specversion: '1.0', partitionkey: `key-${number % 3}` }
      return { destination: topic.topic, message: new Message(Uint8Array.of(1), attributes) }
    })
    try {
      await luaOutbox(fromIoredis(client), { tag: world.args[3], order: 'perKey' }).enqueue(records)
    } finally {
      client.disconnect()
    }
    const refused = await startRelay(world, rabbitmqUrl).ended
    expect(refused.code).toBe(exitCode.refused)
    expect(refused.stderr).toMatch(/layout 2.*Set --order/s)

    const relay = startRelay(world, rabbitmqUrl, '--order', 'perKey')
    const ids = await topic.read(60)
    relay.child.kill('SIGTERM')
    expect((await relay.ended).code).toBe(0)
    for (const key of [0, 1, 2]) {
      const ofKey = (id: string | number) => Number(id) % 3 === key
      expect(ids.filter(ofKey)).toEqual(numbers.filter(ofKey).map(String))
    }
    expect(await leftIn(world)).toEqual({ ready: 0, leased: 0, parked: 0 })
    const doctor = await ackord(['doctor', '--json', ...world.args])
    expect(doctor.stdout).not.toContain('layout')
  })
})

describe('a relay with --keep-published', () => {
  it.each([
    ['PostgreSQL', postgresUrl, {}],
    ['the Lua outbox', redisUrl, { outbox: 'lua' }],
  ] as const)('keeps published records, on %s', async (_, url, more) => {
    await using world = await openTestStore(url, more)
    await using topic = await openTestTopic(rabbitmqUrl)
    await world.fill(topic.topic, 3)
    const relay = startRelay(world, rabbitmqUrl, '--keep-published', '1h')
    expect((await topic.read(3)).length).toBe(3)
    relay.child.kill('SIGTERM')
    expect(await relay.ended).toMatchObject({ code: 0, stderr: '' })
    expect(await world.count('published')).toBe(3)
  })

  it('is rejected on streams, which keep nothing', async () => {
    const { code, stderr } = await ackord(['relay', '--from', redisUrl, '--to', redisUrl, '--keep-published', '1h'])
    expect(stderr).toBe('ackord: Redis Streams keep no published records: remove --keep-published.\n')
    expect(code).toBe(2)
  })
})

/** Makes one of the stored records unreadable. */
async function damageOne({ store }: TestStore): Promise<void> {
  if (store.kind !== 'redis') throw new Error('It is Redis.')
  const keys = (await store.send('KEYS', `{${store.tag}}:*`)) as readonly string[]
  if (store.outboxKind === 'lua') {
    const key = keys.find((each) => each.endsWith(':entries')) ?? ''
    const [id = ''] = (await store.send('HKEYS', key)) as readonly string[]
    await store.send('HSET', key, id, 'no body of ours')
  } else {
    const key = keys.find((each) => each.includes(':to:')) ?? ''
    const [[id] = ['']] = (await store.send('XRANGE', key, '-', '+', 'COUNT', 1)) as readonly [string][]
    await store.send('XDEL', key, id)
    await store.send('XADD', key, '*', 'something', 'else')
  }
}

describe('the endpoints of a relay', () => {
  it('are served under --port: health, readiness, and metrics for Prometheus', async () => {
    await using world = await openTestStore(postgresUrl)
    await using topic = await openTestTopic(rabbitmqUrl)
    await world.fill(topic.topic, 7)
    const relay = startRelay(world, rabbitmqUrl, '--port', '0')
    await relay.said('The relay is running.')
    const url = String(logOf(relay, 'The relay is running.')['health'])
    await topic.read(7)
    const scrape = async () => await (await fetch(`${url}/metrics`)).text()
    await until(async () => (await scrape()).includes(`ackord_outbox_published_total{destination="${topic.topic}"} 7`))
    const metrics = await scrape()
    expect(metrics).toMatch(/ackord_outbox_publish_duration_seconds_bucket\{destination="[^"]+",le="\+Inf"\} \d+/)
    const families = parsePrometheusText(metrics)
    expect(families.size).toBe(servedByAll)
    for (const { name, samples } of families.values()) expect(samples.length, name).toBeGreaterThan(0)
    expect([...families.keys()]).toEqual(expect.arrayContaining(processMetrics))
    expect(families.get('ackord_build_info')?.samples).toEqual([{ name: 'ackord_build_info', labels: { version }, value: 1 }])
    expect((await fetch(`${url}/health/live`)).status).toBe(200)
    expect((await fetch(`${url}/health/ready`)).status).toBe(200)
    expect(await (await fetch(`${url}/health`)).json()).toMatchObject({
      state: 'running',
      store: 'up',
      published: 7,
      down_destinations: [],
    })
    expect((await fetch(`${url}/nothing`)).status).toBe(404)
    expect((await fetch(`${url}/metrics`, { method: 'POST' })).status).toBe(405)

    const port = new URL(url).port
    const second = await ackord(['relay', '--from', ...world.args.slice(1), '--to', rabbitmqUrl, '--port', port])
    expect(second.code).toBe(1)
    expect(second.stderr).toContain('the port is already in use')
    relay.child.kill('SIGTERM')
    expect((await relay.ended).code).toBe(0)
  })

  it('have all series at the first scrape, for the destinations that are named', async () => {
    await using world = await openTestStore()
    const relay = startRelay(world, rabbitmqUrl, '--port', '0', '--destinations', 'orders,https://user:pa55@host/hook')
    await relay.said('The relay is running.')
    const url = String(logOf(relay, 'The relay is running.')['health'])
    const metrics = await (await fetch(`${url}/metrics`)).text()
    const families = parsePrometheusText(metrics)
    expect(families.size).toBe(servedByAll)
    for (const { name, samples } of families.values()) expect(samples.length, name).toBeGreaterThan(0)
    const { samples = [] } = families.get('ackord_outbox_published_total') ?? {}
    expect(samples.map(({ labels, value }) => [labels['destination'], value])).toEqual([
      ['orders', 0],
      ['https://host/hook', 0],
    ])
    expect(metrics).not.toContain('pa55')
    relay.child.kill('SIGTERM')
    expect((await relay.ended).code).toBe(0)
  })

  it.each([
    ['a stream outbox', 'stream', ['ackord_outbox_unreadable_total', 'ackord_outbox_trimmed_total']],
    [
      'a Lua outbox',
      'lua',
      [
        'ackord_outbox_unreadable_total',
        'ackord_outbox_quarantined_total',
        'ackord_outbox_orphans_total',
        'ackord_outbox_retention_total',
        'ackord_outbox_delivery_duration_seconds',
        'ackord_outbox_script_duration_seconds',
        'ackord_outbox_script_reloads_total',
      ],
    ],
  ] as const)('have the metrics of the store too, on %s', async (_, outbox, own) => {
    await using world = await openTestStore(redisUrl, { outbox })
    await using topic = await openTestTopic(rabbitmqUrl)
    await world.fill(topic.topic, 4)
    await damageOne(world)
    const relay = startRelay(world, rabbitmqUrl, '--port', '0', '--destinations', topic.topic)
    await relay.said('The relay is running.')
    const url = String(logOf(relay, 'The relay is running.')['health'])
    const scrape = async () => parsePrometheusText(await (await fetch(`${url}/metrics`)).text())
    const families = await scrape()
    expect([...families.keys()]).toEqual(expect.arrayContaining([...own]))
    expect(families.size).toBe(servedByAll + own.length)
    const samplesOf = async (name: string) =>
      [...(await scrape()).values()].flatMap(({ samples }) => samples).filter((one) => one.name === name)
    const valuesOf = async (name: string) => (await samplesOf(name)).map(({ value }) => value)
    await topic.read(3)
    // One series, which has existed from the beginning.
    await until(async () => (await valuesOf('ackord_outbox_unreadable_total')).join() === '1')
    if (outbox === 'stream') expect(await valuesOf('ackord_outbox_trimmed_total')).toEqual([0])
    else {
      expect(await valuesOf('ackord_outbox_orphans_total')).toEqual([0])
      await until(async () => (await valuesOf('ackord_outbox_delivery_duration_seconds_count')).join() === '3')
      const scripts = (await samplesOf('ackord_outbox_script_duration_seconds_count')).map(({ labels }) => labels['script'])
      expect(scripts).toEqual(expect.arrayContaining(['claim', 'settle']))
    }
    relay.child.kill('SIGTERM')
    expect((await relay.ended).code).toBe(0)
  })

  it('report a destination that has no queue, and parks nothing because of it', async () => {
    await using world = await openTestStore()
    await world.fill('no-such-queue', 2)
    const relay = startRelay(world, rabbitmqUrl)
    await relay.said('no-such-queue')
    relay.child.kill('SIGTERM')
    expect((await relay.ended).code).toBe(0)
    expect(await leftIn(world)).toEqual({ ready: 2, leased: 0, parked: 0 })
  })
})

describe('a server that does not answer any more', () => {
  it('does not prevent a relay from ending if it is the broker', async () => {
    await using world = await openTestStore()
    await using proxy = await startFaultProxy(rabbitmqUrl)
    const relay = startRelay(world, proxy.url)
    await relay.said('The relay is running.')
    proxy.hold()
    relay.child.kill('SIGTERM')
    expect(await relay.ended).toMatchObject({ code: 0, stderr: '' })
  })

  it('does not prevent a relay from ending if it is the store', async () => {
    await using world = await openTestStore(postgresUrl)
    await using proxy = await startFaultProxy(postgresUrl)
    const relay = start(['relay', '--from', proxy.url, ...world.args.slice(2), '--to', redisUrl, '--shutdown-timeout', '100ms', '--json'])
    await relay.said('The relay is running.')
    const asked = deferred()
    proxy.hold()
    proxy.judge(() => {
      asked.resolve()
      return 'pass'
    })
    // The connection of this poll is never returned to the pool.
    await asked.promise
    relay.child.kill('SIGTERM')
    expect(await relay.ended).toMatchObject({ code: 0, stderr: '' })
  })
})

describe('a relay whose output is closed', () => {
  it('continues', async () => {
    await using world = await openTestStore()
    await using topic = await openTestTopic(rabbitmqUrl)
    const relay = startRelay(world, rabbitmqUrl, '--port', '0')
    const healthOf = await healthWithoutReader(relay)
    // Makes the relay log something, which fails without a reader.
    await world.fill('no-such-queue', 1)
    await until(async () => (await healthOf())['down_destinations']?.toString() === 'no-such-queue')
    await world.fill(topic.topic, 5)
    expect((await topic.read(5)).length).toBe(5)
    relay.child.kill('SIGTERM')
    expect(await relay.ended).toMatchObject({ code: 0, stderr: '' })
    expect(await leftIn(world)).toEqual({ ready: 1, leased: 0, parked: 0 })
  })

  it.each(['SIGTERM', 'SIGINT'] as const)('finishes records in flight at %s', async (signal) => {
    await using world = await openTestStore()
    await using topic = await openTestTopic(rabbitmqUrl)
    await using proxy = await startFaultProxy(rabbitmqUrl)
    const relay = startRelay(world, proxy.url, '--port', '0')
    const healthOf = await healthWithoutReader(relay)
    proxy.hold()
    await world.fill(topic.topic, 10)
    await until(async () => (await world.count('leased')) === 10)
    relay.child.kill(signal)
    await until(async () => (await healthOf())['state'] === 'stopping')
    proxy.release()
    expect(await relay.ended).toMatchObject({ code: 0, stderr: '' })
    expect(await leftIn(world)).toEqual({ ready: 0, leased: 0, parked: 0 })
  })

  it('still ends with the exit code of its failure, also if stderr is closed', async () => {
    await using world = await openTestStore()
    const relay = start(['relay', '--from', ...world.args.slice(1), '--to', 'amqp://127.0.0.1:1'])
    relay.child.stdout?.destroy()
    relay.child.stderr?.destroy()
    expect((await relay.ended).code).toBe(3)
  })
})

/** Waits until the relay runs, closes its stdout, and returns a function that reads its health endpoint. */
async function healthWithoutReader(relay: Ackord): Promise<() => Promise<Record<string, unknown>>> {
  await relay.said('The relay is running.')
  const url = String(logOf(relay, 'The relay is running.')['health'])
  relay.child.stdout?.destroy()
  return async () => (await (await fetch(`${url}/health`)).json()) as Record<string, unknown>
}

describe('a relay that cannot start', () => {
  it.each([
    ['a missing broker', ['--to', 'amqp://user:pa55-w0rd@127.0.0.1:1'], 3],
    ['a broker that rejects the password', ['--to', rabbitmqUrl.replace('guest:guest', 'guest:pa55-w0rd')], 4],
    ['a missing Redis database', ['--to', `${redisUrl}/99999`], 4],
    ['a missing Redis database to read from', ['--to', redisUrl, '--from', `${redisUrl}/99999`], 4],
    ['a broker in memory', ['--to', 'memory:'], 2],
    ['order per key on a store without it', ['--to', redisUrl, '--from', redisUrl, '--order', 'perKey'], 2],
    ['notifications on a store without them', ['--to', redisUrl, '--listen'], 2],
  ])('because of %s reports it, without the password', async (_, args, expected) => {
    await using world = await openTestStore()
    const from = args.includes('--from') ? [] : ['--from', ...world.args.slice(1)]
    const { code, stderr } = await ackord(['relay', ...from, ...args])
    expect(stderr).toMatch(/^ackord: \S/)
    expect(stderr).not.toContain('pa55-w0rd')
    expect(code).toBe(expected)
  })

  it('stops at a signal while it connects', async () => {
    await using world = await openTestStore()
    // Accepts connections, and never answers.
    const mute = createServer().listen(0, '127.0.0.1')
    await once(mute, 'listening')
    const connected = once(mute, 'connection')
    const relay = startRelay(world, `amqp://127.0.0.1:${(mute.address() as AddressInfo).port}`)
    const [socket] = (await connected) as [Socket]
    relay.child.kill('SIGTERM')
    expect(await relay.ended).toMatchObject({ code: 0, stderr: '' })
    socket.destroy()
    mute.close()
  })
})
