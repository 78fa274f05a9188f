import { randomUUID } from 'node:crypto'
import { Redis } from 'ioredis'
import { beforeAll, describe, expect, it } from 'vitest'
import { startRedis } from '../../../../scripts/servers/index.mjs'
import { ackord, type Ended } from '../support/ackord.ts'
import { bundleMain } from '../support/bundle-main.ts'
import { startDeafProxy } from '../support/deaf-proxy.ts'
import {
  clusterUrl,
  mariadbUrl,
  natsUrl,
  openTestStore,
  openTestTopic,
  postgresUrl,
  rabbitmqUrl,
  redisUrl,
  sqsUrl,
} from '../support/services.ts'

beforeAll(bundleMain)

interface Finding {
  readonly of: string
  readonly name: string
  readonly state: string
  readonly text: string
}

function findings({ last }: Ended): Readonly<Record<string, Finding>> {
  return Object.fromEntries((last['checks'] as Finding[]).map((finding) => [`${finding.of} ${finding.name}`, finding]))
}

describe('a healthy store', () => {
  it.each([
    ['PostgreSQL', postgresUrl, ['connection', 'server', 'durability', 'clock', 'notifications', 'schema', 'privileges', 'backlog']],
    ['MariaDB', mariadbUrl, ['connection', 'server', 'durability', 'clock', 'schema', 'privileges', 'backlog']],
    ['SQLite', undefined, ['connection', 'server', 'durability', 'privileges', 'schema', 'backlog']],
  ])('passes all checks: %s', async (_, url, names) => {
    await using world = await openTestStore(url)
    const ended = await ackord(['doctor', '--json', '--broker', rabbitmqUrl, ...world.args])
    const found = findings(ended)
    for (const name of names) expect(found[`store ${name}`]).toMatchObject({ state: 'ok' })
    expect(found['broker connection']).toMatchObject({ state: 'ok' })
    expect(ended.code).toBe(0)
  })

  it.each([
    ['a cluster', clusterUrl, {}],
    ['a cluster, with the Lua outbox in three shards', clusterUrl, { outbox: 'lua', shards: 3 }],
    ['one server, with the Lua outbox', redisUrl, { outbox: 'lua' }],
  ] as const)('passes all checks that apply: Redis, %s', async (_, url, more) => {
    await using world = await openTestStore(url, more)
    await world.fill('orders', 1)
    const ended = await ackord(['doctor', '--json', '--broker', url, ...world.args])
    const found = findings(ended)
    for (const name of ['connection', 'clock', 'privileges', 'backlog']) expect(found[`store ${name}`]).toMatchObject({ state: 'ok' })
    expect(found['broker connection']).toMatchObject({ state: 'ok', text: `${url} answers.` })
    // The durability settings of the test servers vary; only the presence of the check is asserted.
    expect(found['store appendonly']).toBeDefined()
  })

  it('has a finding for every master of a cluster, with its address', async () => {
    await using world = await openTestStore(clusterUrl)
    const told = await ackord(['doctor', '--json', ...world.args])
    const lines = (told.last['checks'] as Finding[]).filter(({ name }) => name === 'appendonly').map(({ text }) => text)
    const addresses = lines.map((text) => /^On (127\.0\.0\.1:\d+): \S/.exec(text)?.[1])
    expect(addresses).not.toContain(undefined)
    expect(new Set(addresses).size).toBe(lines.length)
    expect(lines.length).toBeGreaterThanOrEqual(3)
    const { stdout } = await ackord(['doctor', ...world.args])
    for (const address of addresses) expect(stdout).toContain(`On ${address}: `)
  })

  it('has no server name in the findings of a single server', async () => {
    await using world = await openTestStore(redisUrl)
    const { last } = await ackord(['doctor', '--json', ...world.args])
    const texts = (last['checks'] as Finding[]).map(({ text }) => text)
    expect(texts.length).toBeGreaterThan(4)
    expect(texts.filter((text) => text.startsWith('On '))).toEqual([])
  })

  it('is reported as text, too', async () => {
    await using world = await openTestStore()
    const { code, stdout } = await ackord(['doctor', ...world.args])
    expect(stdout).toMatch(/✓ store schema +The tables exist/)
    expect(code).toBe(0)
  })
})

describe('a problem of a store', () => {
  it('is reported: a missing schema', async () => {
    const ended = await ackord(['doctor', '--json', '--store', postgresUrl, '--prefix', `none_${randomUUID().slice(0, 8)}_`])
    expect(findings(ended)['store schema']).toMatchObject({ state: 'problem', text: expect.stringContaining('ackord migrate up') })
    expect(ended.code).toBe(1)
  })

  it('is reported: commits that PostgreSQL does not flush', async () => {
    await using world = await openTestStore(postgresUrl)
    const url = `${postgresUrl}?options=-c%20synchronous_commit%3Doff`
    const ended = await ackord(['doctor', '--json', '--store', url, ...world.args.slice(2)])
    expect(findings(ended)['store durability']).toMatchObject({
      state: 'problem',
      text: expect.stringContaining('synchronous_commit is off'),
    })
    expect(ended.code).toBe(1)
  })

  it('is reported: notifications that a pooler does not deliver', async () => {
    await using pooler = await startDeafProxy(postgresUrl)
    await using world = await openTestStore(postgresUrl)
    const args = ['doctor', '--json', '--store', pooler.url, ...world.args.slice(2)]
    const [ended, strict] = await Promise.all([ackord(args), ackord([...args, '--strict'])])
    const found = findings(ended)
    expect(found['store notifications']).toMatchObject({ state: 'warning', text: expect.stringContaining('pooler') })
    expect(found['store schema']).toMatchObject({ state: 'ok' })
    expect(ended.code).toBe(0)
    expect(strict.code).toBe(1)
  })

  it('is reported: settings that the user may not read, which fails unless --allow-unchecked is given', async () => {
    await using server = await startRedis({ args: ['--appendonly', 'yes', '--appendfsync', 'always', '--maxmemory-policy', 'noeviction'] })
    const url = new URL(server.url)
    const client = new Redis(server.url)
    try {
      await client.acl('SETUSER', 'service', 'on', '>secret', '~*', '&*', '+@all', '-config')
    } finally {
      client.disconnect()
    }
    url.username = 'service'
    url.password = 'secret'
    const args = ['doctor', '--json', '--store', url.href]
    const [ended, allowed] = await Promise.all([ackord(args), ackord([...args, '--allow-unchecked'])])
    const states = Object.values(findings(ended)).map(({ state }) => state)
    expect(states).toContain('unknown')
    expect(states).not.toContain('problem')
    expect(ended.code).toBe(1)
    expect(allowed.code).toBe(0)
  })

  it('is reported: a Redis without persistence, and one that evicts keys', async () => {
    await using server = await startRedis({ args: ['--appendonly', 'no', '--maxmemory-policy', 'allkeys-lru'] })
    const ended = await ackord(['doctor', '--json', '--store', server.url])
    const found = findings(ended)
    expect(found['store appendonly']).toMatchObject({ state: 'problem' })
    expect(found['store maxmemory-policy']).toMatchObject({ state: 'problem' })
    expect(found['store privileges']).toMatchObject({ state: 'ok' })
    expect(ended.code).toBe(1)
  })

  it('is reported: parked records', async () => {
    await using world = await openTestStore()
    await world.fill('orders', 2)
    await world.park()
    const ended = await ackord(['doctor', '--json', ...world.args])
    expect(findings(ended)['store backlog']).toMatchObject({ state: 'warning', text: expect.stringContaining('2 records are parked') })
    expect(ended.code).toBe(0)
  })
})

describe('a problem of a broker', () => {
  it.each([
    ['RabbitMQ', rabbitmqUrl],
    ['NATS', natsUrl],
    ['SQS', sqsUrl],
  ])('is reported: a destination that does not exist at %s', async (_, url) => {
    await using world = await openTestStore()
    await using topic = await openTestTopic(url)
    await world.fill(topic.topic, 1)
    expect((await ackord(['doctor', '--broker', url, ...world.args])).code).toBe(0)
    await world.fill('nobody-takes-this', 1)
    const ended = await ackord(['doctor', '--json', '--broker', url, ...world.args])
    expect(findings(ended)['broker destination']).toMatchObject({ state: 'problem', text: expect.stringContaining('nobody-takes-this') })
    expect(ended.code).toBe(1)
  })
})

describe('servers that cannot be used', () => {
  const secret = 'pa55-w0rd-7f3c'
  const cases = [
    ['connection refused: PostgreSQL', `postgres://user:${secret}@127.0.0.1:1/db`, 3],
    ['connection refused: MySQL', `mysql://user:${secret}@127.0.0.1:1/db`, 3],
    ['connection refused: Redis', `redis://user:${secret}@127.0.0.1:1`, 3],
    ['no such host', `postgres://user:${secret}@no-such-host.invalid/db`, 3],
    ['no such role: PostgreSQL', postgresUrl.replace('postgres@', `nobody:${secret}@`), 4],
    ['no such database: PostgreSQL', postgresUrl.replace('postgres@', `postgres:${secret}@`).replace(/\/[^/]*$/, '/nothing'), 4],
    ['wrong password: MariaDB', mariadbUrl.replace('root@', `root:${secret}@`), 4],
    ['no such database: MariaDB', mariadbUrl.replace(/\/[^/]*$/, '/nothing'), 4],
    ['wrong password: Redis', redisUrl.replace('redis://', `redis://nobody:${secret}@`), 4],
    ['connection refused: a Redis Cluster', `redis+cluster://user:${secret}@127.0.0.1:1,127.0.0.1:2`, 3],
    ['wrong password: a Redis Cluster', clusterUrl.replace('redis+cluster://', `redis+cluster://nobody:${secret}@`), 4],
    ['not a cluster', redisUrl.replace('redis://', 'redis+cluster://'), 4],
  ] as const

  it.each(cases)('%s', async (_, url, expected) => {
    for (const command of ['doctor', 'status']) {
      for (const mode of [[], ['--json']]) {
        const { code, stdout, stderr } = await ackord([command, '--store', url, ...mode])
        expect(stdout + stderr).toContain('Cannot use')
        expect(stdout + stderr).not.toContain(secret)
        expect(code).toBe(expected)
      }
    }
  })

  it.each([
    ['connection refused: RabbitMQ', `amqp://user:${secret}@127.0.0.1:1`, 3],
    ['connection refused: NATS', `nats://user:${secret}@127.0.0.1:1`, 3],
    ['connection refused: SQS', `sqs://user:${secret}@127.0.0.1:1`, 3],
    ['wrong password: RabbitMQ', rabbitmqUrl.replace('guest:guest', `guest:${secret}`), 4],
    ['no such virtual host: RabbitMQ', `${rabbitmqUrl}/nothing`, 4],
  ] as const)('%s', async (_, url, expected) => {
    const { code, stdout, stderr } = await ackord(['doctor', '--broker', url])
    expect(stdout).toContain('✗ broker connection')
    expect(stdout + stderr).not.toContain(secret)
    expect(code).toBe(expected)
  })
})
