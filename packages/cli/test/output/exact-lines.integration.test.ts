import { join } from 'node:path'
import { beforeAll, describe, expect, it } from 'vitest'
import { startNats } from '../../../../scripts/servers/index.mjs'
import { ackord, emptyDirectory, start } from '../support/ackord.ts'
import { bundleMain } from '../support/bundle-main.ts'
import { clusterUrl, mariadbUrl, openTestStore, openTestTopic, postgresUrl, rabbitmqUrl, redisUrl } from '../support/services.ts'

beforeAll(bundleMain)

const stores =
  'Expected one of: postgres://host:5432/database, mysql://host:3306/database, sqlite:file.db, redis://host:6379, redis+cluster://host:6379'
const brokers =
  'Expected one of: amqp://host:5672, amqp10://host:5672, nats://host:4222, kafka://host:9092, mqtt://host:1883, redis://host:6379, redis+cluster://host:6379, sqs:, sns:, eventbridge:'
const encoded = 'Special characters in a password must be percent-encoded.'

/** The lines on stderr; stdout is empty. */
async function linesOf(args: readonly string[], cwd?: string): Promise<readonly string[]> {
  const { stdout, stderr } = await ackord(args, cwd === undefined ? {} : { cwd })
  expect(stdout).toBe('')
  return stderr.trimEnd().split('\n')
}

describe('a URL with a typo', () => {
  it.each([
    ['postgre://host/db', "--store has the scheme 'postgre:', which is not a supported store.", stores],
    ['redis+lua://host', "--store has the scheme 'redis+lua:', which is not a supported store.", stores],
    ['postgres//host/db', '--store is not a valid URL.', `${stores}. ${encoded}`],
    ['postgres://host:54321x/db', '--store has an invalid host or port.', `${stores}. ${encoded}`],
    [
      'postgres://user:50%@host/db',
      "--store has a '%' in its user or password that is not followed by a percent-encoded character.",
      "Write '%' as '%25'.",
    ],
    ['redis+cluster://host:1/2', 'A Redis Cluster has no numbered databases.', "Remove '/2' from the end of the URL."],
  ])('of a store: %s', async (url, message, hint) => {
    expect(await linesOf(['status', '--store', url])).toEqual([`ackord: ${message}`, `  ${hint}`])
  })

  it('of a broker', async () => {
    const lines = await linesOf(['doctor', '--broker', 'ampq://host'])
    expect(lines).toEqual(["ackord: --broker has the scheme 'ampq:', which is not a supported broker.", `  ${brokers}`])
  })

  it('of a host', async () => {
    expect(await linesOf(['status', '--store', 'postgres://no-such-host.invalid/db'])).toEqual([
      expect.stringMatching(
        /^ackord: Cannot use postgres:\/\/no-such-host\.invalid\/db: (host not found|the host name cannot be resolved) \(getaddrinfo E\w+ no-such-host\.invalid\)\.$/,
      ),
      '  Is the server running, and are host and port correct?',
    ])
  })

  it('of a file', async () => {
    const cwd = emptyDirectory()
    expect(await linesOf(['status', '--store', 'sqlite:oders.db'], cwd)).toEqual([
      `ackord: The file ${join(cwd, 'oders.db')} does not exist.`,
      '  Check the path; `ackord migrate up` creates a new one.',
    ])
  })
})

describe('wrong credentials', () => {
  const [secret, hint] = ['pa55-w0rd-7f3c', '  Check user and password in the URL; special characters must be percent-encoded.']

  it('for PostgreSQL', async () => {
    const url = new URL(postgresUrl)
    ;[url.username, url.password] = ['nobody_here', secret]
    const { host, pathname } = url
    expect(await linesOf(['list', '--store', url.href])).toEqual([
      `ackord: Cannot use postgres://nobody_here:***@${host}${pathname}: the credentials were rejected (role "nobody_here" does not exist).`,
      hint,
    ])
  })

  it('for MariaDB', async () => {
    const url = new URL(mariadbUrl)
    ;[url.username, url.password] = ['root', secret]
    expect(await linesOf(['list', '--store', url.href])).toEqual([
      expect.stringMatching(
        /^ackord: Cannot use mysql:\/\/\S+: the credentials were rejected \(Access denied for user 'root'@'[\w.]+' \(using password: YES\)\)\.$/,
      ),
      hint,
    ])
  })

  it('for Redis, a server and a cluster', async () => {
    const told = 'the credentials were rejected (WRONGPASS invalid username-password pair or user is disabled.)'
    expect(await linesOf(['list', '--store', redisUrl.replace('://', `://orders:${secret}@`)])).toEqual([
      `ackord: Cannot use ${redisUrl.replace('://', '://orders:***@')}: ${told}.`,
      hint,
    ])
    expect(await linesOf(['list', '--store', clusterUrl.replace('://', `://orders:${secret}@`)])).toEqual([
      `ackord: Cannot use ${clusterUrl.replace('://', '://orders:***@')}: ${told}.`,
      hint,
    ])
  })

  it('for RabbitMQ and NATS', async () => {
    await using world = await openTestStore(redisUrl)
    const relay = (url: string) => linesOf(['relay', '--from', ...world.args.slice(1), '--to', url])
    const rabbitmq = new URL(rabbitmqUrl)
    rabbitmq.password = secret
    const [first = '', ...rest] = await relay(rabbitmq.href)
    expect(first).toMatch(
      /^ackord: Cannot use amqp:\/\/guest:\*\*\*@127\.0\.0\.1:\d+: the credentials were rejected \(.*ACCESS[-_]REFUSED.*\)\.$/,
    )
    expect(rest).toEqual([hint])
    expect(first).not.toContain(secret)
    await using server = await startNats({ user: 'orders', password: 'right' })
    const nats = new URL(server.url)
    nats.password = secret
    expect(await relay(nats.href)).toEqual([
      `ackord: Cannot use nats://orders:***@${nats.host}: the credentials were rejected (Authorization Violation).`,
      hint,
    ])
  })
})

describe('a schema', () => {
  const migrate = '  Run `ackord migrate up` with the same --store, --schema and --prefix.'

  /** Tables whose version is set to this. */
  async function openVersion(version: number) {
    const world = await openTestStore(postgresUrl)
    if (world.store.kind === 'redis') throw new Error('Expected PostgreSQL.')
    const meta = world.store.table('meta')
    const [row] = await world.store.query(`SELECT version FROM ${meta} WHERE name = 'schema'`)
    await world.store.define(`UPDATE ${meta} SET version = ${version}, oldest_reader = ${version} WHERE name = 'schema'`)
    const commands = [
      ['migrate', 'validate', ...world.args],
      ['relay', '--from', ...world.args.slice(1), '--to', rabbitmqUrl],
    ]
    return { world, meta, known: Number(row?.['version']), commands, [Symbol.asyncDispose]: () => world[Symbol.asyncDispose]() }
  }

  it('that is newer than the command', async () => {
    await using opened = await openVersion(99)
    const { meta, known } = opened
    for (const command of opened.commands) {
      expect(await linesOf(command)).toEqual([
        `ackord: The tables beside ${meta} have version 99, which needs code that knows version 99; this code knows ${known}.`,
        '  Update the command: npm install ackord@latest',
      ])
    }
  })

  it('that is older than the command', async () => {
    await using opened = await openVersion(1)
    const { meta, known } = opened
    for (const command of opened.commands) {
      expect(await linesOf(command)).toEqual([`ackord: The tables beside ${meta} have version 1, and this code needs ${known}.`, migrate])
    }
  })

  it('that is missing', async () => {
    const args = ['--store', postgresUrl, '--prefix', 'nobody_made_these_']
    expect(await linesOf(['list', ...args])).toEqual([
      'ackord: The table "nobody_made_these_outbox" does not exist, or lacks a column.',
      migrate,
    ])
    expect(await linesOf(['migrate', 'validate', ...args])).toEqual([
      'ackord: There is no schema version in "nobody_made_these_meta".',
      migrate,
    ])
  })
})

describe('a server or a cluster', () => {
  it('that is addressed as the other', async () => {
    expect(await linesOf(['list', '--store', redisUrl.replace('redis:', 'redis+cluster:')])).toEqual([
      `ackord: Cannot use ${redisUrl.replace('redis:', 'redis+cluster:')}: the server is not a cluster (ERR This instance has cluster support disabled).`,
      '  Use redis:// instead of redis+cluster://.',
    ])
    const [first = ''] = clusterUrl.replace('redis+cluster://', '').split(',')
    const places = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h']
    const told = await Promise.all(places.map((tag) => ackord(['status', '--store', `redis://${first}`, '--tag', tag])))
    const refused = told.filter(({ code }) => code !== 0)
    // The node serves only a third of the slots.
    expect(refused.length).toBeGreaterThan(0)
    for (const { code, stdout, stderr } of refused) {
      expect(stderr).toMatch(
        /^ackord: Cannot use the server: the server is a node of a cluster \(MOVED \d+ 127\.0\.0\.1:\d+\)\.\n {2}Use redis\+cluster:\/\/ instead of redis:\/\/\.\n$/,
      )
      expect({ code, stdout }).toEqual({ code: 4, stdout: '' })
    }
  })
})

describe('two relays with the same name', () => {
  it('both run, with the same log lines', async () => {
    await using world = await openTestStore(postgresUrl)
    await using topic = await openTestTopic(rabbitmqUrl)
    const args = ['relay', '--from', ...world.args.slice(1), '--to', rabbitmqUrl, '--name', 'twin', '--json']
    const relays = [start(args), start(args)]
    await Promise.all(relays.map((relay) => relay.said('The relay is running.')))
    await world.fill(topic.topic, 3)
    await topic.read(3)
    for (const relay of relays) relay.child.kill('SIGTERM')
    const ended = await Promise.all(relays.map((relay) => relay.ended))
    const addresses = { from: postgresUrl, to: rabbitmqUrl.replace('guest:guest@', 'guest:***@') }
    const line = (text: string, fields: object) => ({ time: expect.any(String), level: 'info', text, relay: 'twin', ...fields })
    const counts = { published: expect.any(Number), failed: 0, parked: 0, released: expect.any(Number) }
    for (const { code, stdout, stderr } of ended) {
      expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
      expect(
        stdout
          .trimEnd()
          .split('\n')
          .map((text) => JSON.parse(text)),
      ).toEqual([
        line('The relay is running.', addresses),
        line('The relay is stopping: records in flight are finished, the rest is released.', {}),
        line('The relay has stopped.', counts),
      ])
    }
  })
})
