import { randomUUID } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { silentLogger } from '@ackord/core'
import { Redis } from 'ioredis'
import { beforeAll, describe, expect, it } from 'vitest'
import { startRedis } from '../../../../scripts/servers/index.mjs'
import { ownName } from '../../../../scripts/test-run.mjs'
import { postgresLog } from '../../../sql/src/postgres/log/statements.ts'
import { portOf } from '../../../sql/src/transaction/database.ts'
import { redisCommands } from '../../src/doctor/redis-privileges.ts'
import { Secrets } from '../../src/output/secrets.ts'
import { openStore } from '../../src/stores/open-store.ts'
import type { SqlStore, StoreLocation } from '../../src/stores/store.ts'
import { ackord, type Ended, start } from '../support/ackord.ts'
import { bundleMain } from '../support/bundle-main.ts'
import { openLogWriter } from '../support/log-writer.ts'
import { mariadbUrl, openTestStore, openTestTopic, postgresUrl, rabbitmqUrl, record, type TestTopic } from '../support/services.ts'

beforeAll(bundleMain)

const password = 'pa55-w0rd'

interface Finding {
  readonly name: string
  readonly state: string
  readonly text: string
  readonly statements?: readonly string[]
}

function findingOf({ last }: Ended, name = 'privileges'): Finding | undefined {
  return (last['checks'] as Finding[]).find((finding) => finding.name === name)
}

/** The commands that a user needs who runs a relay, cleans up and manages records. */
async function expectWorks(args: readonly string[], topic: TestTopic, more: readonly string[] = []): Promise<void> {
  const relay = start(['relay', '--from', ...args.slice(1), '--to', rabbitmqUrl, '--json', ...more])
  await topic.read(1)
  relay.child.kill('SIGTERM')
  expect(await relay.ended).toMatchObject({ code: 0, stderr: '' })
  for (const command of [['status'], ['list'], ['cleanup'], ['rearm', '--all'], ['discard', '--all', '--yes', '--reason', 'test']]) {
    expect(await ackord([...command, ...args])).toMatchObject({ code: 0, stderr: expect.not.stringMatching(/denied|NOPERM/) })
  }
}

/** An SQL database with the tables, and a user of its own with its URL. */
async function openRestricted(url: string, create: (store: SqlStore, user: string) => Promise<void>, drop: (user: string) => string[]) {
  const world = await openTestStore(url)
  const { store } = world
  if (store.kind === 'redis') throw new Error('Expected an SQL database.')
  const user = `cli_test_${ownName()}`.slice(0, 60)
  await create(store, user)
  const own = new URL(url)
  ;[own.username, own.password] = [user, password]
  return {
    world,
    store,
    user,
    args: ['--store', own.href, ...world.args.slice(2)],
    async [Symbol.asyncDispose]() {
      for (const statement of drop(user)) await store.define(statement)
      await world[Symbol.asyncDispose]()
    },
  }
}

describe('missing privileges in PostgreSQL', () => {
  const open = (...grants: ((store: SqlStore, user: string) => string)[]) =>
    openRestricted(
      postgresUrl,
      async (store, user) => {
        await store.define(`CREATE ROLE ${user} LOGIN PASSWORD '${password}'`)
        for (const grant of grants) await store.define(grant(store, user))
      },
      (user) => [`DROP OWNED BY ${user}`, `DROP ROLE ${user}`],
    )

  it('are listed as statements, and only those that are missing', async () => {
    await using opened = await open(
      (store, user) => `GRANT SELECT ON ${store.table('meta')}, ${store.table('outbox')} TO ${user}`,
      (store, user) => `GRANT SELECT, INSERT, UPDATE, DELETE ON ${store.table('inbox')} TO ${user}`,
      (store) => `REVOKE EXECUTE ON FUNCTION ${store.table('valid')} FROM PUBLIC`,
    )
    const { store, user, args } = opened
    const ended = await ackord(['doctor', '--json', ...args])
    expect(findingOf(ended)).toEqual({
      of: 'store',
      name: 'privileges',
      state: 'problem',
      text: `The user ${user} lacks privileges that services and relays need. As an administrator, run:`,
      statements: [
        `GRANT INSERT, UPDATE ON ${store.table('meta')} TO ${user};`,
        `GRANT INSERT, UPDATE, DELETE ON ${store.table('outbox')} TO ${user};`,
        `GRANT SELECT, INSERT, UPDATE, DELETE ON ${store.table('notes')} TO ${user};`,
        `GRANT SELECT, INSERT, UPDATE, DELETE ON ${store.table('idempotency')} TO ${user};`,
        `GRANT SELECT, INSERT, UPDATE, DELETE ON ${store.table('process')} TO ${user};`,
        `GRANT EXECUTE ON FUNCTION ${store.table('valid')} TO ${user};`,
      ],
    })
    expect(ended.code).toBe(1)
    const { stdout } = await ackord(['doctor', ...args])
    expect(stdout).toContain(`As an administrator, run:\n    GRANT INSERT, UPDATE ON ${store.table('meta')} TO ${user};\n`)
    expect(stdout).not.toContain(password)
  })

  it.each([
    ['none', []],
    ['perKey', ['--order', 'perKey']],
  ])('are complete: a relay with the order %s works with them', async (order, more) => {
    await using opened = await open((store) => `REVOKE EXECUTE ON FUNCTION ${store.table('valid')}, ${store.table('keep')} FROM PUBLIC`)
    await using topic = await openTestTopic(rabbitmqUrl)
    const { store, args, world } = opened
    await world.fill(topic.topic, 1)
    const statements = findingOf(await ackord(['doctor', '--json', ...args, ...more]))?.statements ?? []
    expect(statements.some((statement) => statement.includes('keep'))).toBe(order === 'perKey')
    for (const statement of statements) await store.define(statement)
    const ended = await ackord(['doctor', '--json', ...args, ...more])
    expect(findingOf(ended)).toMatchObject({ state: 'ok' })
    expect(ended.code).toBe(0)
    await expectWorks(args, topic, more)
  })

  it('include the log, and are complete: a service and a relay in log mode work with them', async () => {
    await using opened = await open((store) => `REVOKE EXECUTE ON FUNCTION ${store.table('valid')}, ${store.table('keep')} FROM PUBLIC`)
    await using topic = await openTestTopic(rabbitmqUrl)
    const { store, args, user } = opened
    const more = ['--mode', 'log']
    const statements = findingOf(await ackord(['doctor', '--json', ...args, ...more]))?.statements ?? []
    expect(statements).toContain(`GRANT SELECT, TRUNCATE ON ${store.table('log_3')} TO ${user};`)
    expect(statements.filter((statement) => statement.startsWith('GRANT USAGE ON SEQUENCE '))).toHaveLength(1)
    for (const statement of statements) await store.define(statement)
    await using writer = openLogWriter(args[1] ?? '', args[3] ?? '')
    await writer.append(topic.topic, 'e1')
    const ended = await ackord(['doctor', '--json', ...args])
    expect([findingOf(ended), ended.code]).toMatchObject([{ state: 'ok' }, 0])
    await expectWorks(args, topic, more)

    const { driver, tables } = portOf(writer.database)
    const port = { driver, table: tables({}).outbox, tables: tables({}), retain: false, keepsFailures: async () => true }
    const log = postgresLog(port, { maxAge: 0 })
    const [before] = await store.query(`SELECT version FROM ${store.table('meta')} WHERE name = 'log'`)
    const written = store.table(`log_${String(before?.['version'])}`)
    expect(await store.query(`SELECT id FROM ${written}`)).toHaveLength(1)
    // The first one leaves the part, and the second one empties it.
    for (let round = 0; round < 2; round += 1) await log.rotate()
    expect(await store.query(`SELECT id FROM ${written}`)).toEqual([])
    await store.query(`UPDATE ${store.table('notes')} SET value = '1/1' WHERE kind = 'log' AND name = 'identity'`)
    expect(await log.open(randomUUID())).toMatchObject({ restored: true })
  })

  it('include the partitions of the inbox, and are complete', async () => {
    await using opened = await open()
    const { store, args, user } = opened
    const owner = ['--store', postgresUrl, ...args.slice(2), '--inbox-partitions', 'true']
    expect((await ackord(['migrate', 'validate', ...owner])).stderr).toContain('has no partitions')
    for (const command of ['up', 'validate']) expect((await ackord(['migrate', command, ...owner])).code).toBe(0)
    const statements = findingOf(await ackord(['doctor', '--json', ...args]))?.statements ?? []
    expect(statements).toContain(`GRANT SELECT, INSERT, TRUNCATE ON ${store.table('inbox_0')} TO ${user};`)
    for (const statement of statements) await store.define(statement)
    expect((await ackord(['doctor', '--json', ...args])).code).toBe(0)
    const record = `INSERT INTO ${store.table('inbox')} (consumer, source, id) SELECT 'orders', '/shop', gen_random_uuid()::text`
    const location = { prefix: args[3] ?? '' }
    await using own = await openStore(args[1] ?? '', { option: 'url', location, logger: silentLogger, secrets: new Secrets() })
    if (own.kind === 'redis') throw new Error('Expected an SQL database.')
    // Each round ages the partitions by half a window, and switches.
    for (let round = 0; round < 5; round += 1) {
      await own.query(record)
      await store.query(`UPDATE ${store.table('inbox_sealed')} SET sealed_at = sealed_at - interval '4 days'`)
      expect(await ackord(['cleanup', ...args])).toMatchObject({ code: 0, stderr: '' })
    }
    const [row] = await store.query(`SELECT count(*)::int AS count FROM ${store.table('inbox')}`)
    expect(Number(row?.['count'])).toBeLessThan(5)
  })

  it('include the schema, which the user may not even use', async () => {
    await using opened = await open()
    const { store, user } = opened
    const schema = `cli_test_${ownName()}`.slice(0, 60)
    await store.define(`CREATE SCHEMA ${schema}`)
    try {
      const args = [...opened.args.slice(0, 2), '--schema', schema]
      expect((await ackord(['migrate', 'up', '--store', postgresUrl, '--schema', schema])).code).toBe(0)
      const ended = await ackord(['doctor', '--json', ...args])
      expect(findingOf(ended, 'schema')).toMatchObject({ state: 'problem', text: expect.stringContaining('permission denied') })
      const statements = findingOf(ended)?.statements ?? []
      expect(statements[0]).toBe(`GRANT USAGE ON SCHEMA ${schema} TO ${user};`)
      expect(statements).toContain(`GRANT SELECT, INSERT, UPDATE, DELETE ON "${schema}"."ackord_outbox" TO ${user};`)
      expect(ended.code).toBe(1)
      for (const statement of statements) await store.define(statement)
      expect((await ackord(['doctor', '--json', ...args])).code).toBe(0)
    } finally {
      await store.define(`DROP SCHEMA ${schema} CASCADE`)
    }
  })

  it('do not include transactions of others, which the doctor does not see then', async () => {
    await using opened = await open()
    const ended = await ackord(['doctor', '--json', ...opened.args])
    expect(findingOf(ended, 'snapshots')).toMatchObject({ state: 'ok', text: expect.stringContaining('pg_read_all_stats') })
  })
})

describe('missing privileges in MariaDB', () => {
  const open = (grant: (store: SqlStore) => string) =>
    openRestricted(
      mariadbUrl,
      async (store, user) => {
        await store.define(`CREATE USER '${user}'@'%' IDENTIFIED BY '${password}'`)
        await store.define(`${grant(store)} TO '${user}'@'%'`)
      },
      (user) => [`DROP USER '${user}'@'%'`],
    )
  const database = new URL(mariadbUrl).pathname.slice(1)

  it('are listed as statements, and only those that are missing', async () => {
    await using opened = await open((store) => `GRANT SELECT, INSERT, UPDATE ON ${store.table('outbox')}`)
    const { store, user, args } = opened
    const ended = await ackord(['doctor', '--json', ...args])
    const { state, statements } = findingOf(ended) ?? {}
    expect(state).toBe('problem')
    expect(statements).toEqual([
      `GRANT SELECT, INSERT, UPDATE ON \`${database}\`.${store.table('meta')} TO '${user}'@'%';`,
      `GRANT SELECT, INSERT, DELETE ON \`${database}\`.${store.table('inbox')} TO '${user}'@'%';`,
      `GRANT DELETE ON \`${database}\`.${store.table('outbox')} TO '${user}'@'%';`,
      `GRANT SELECT, INSERT, UPDATE, DELETE ON \`${database}\`.${store.table('notes')} TO '${user}'@'%';`,
      `GRANT SELECT, INSERT, UPDATE, DELETE ON \`${database}\`.${store.table('idempotency')} TO '${user}'@'%';`,
      `GRANT SELECT, INSERT, UPDATE, DELETE ON \`${database}\`.${store.table('process')} TO '${user}'@'%';`,
    ])
    expect(findingOf(ended, 'schema')).toMatchObject({ state: 'problem' })
    expect(ended.code).toBe(1)
    expect(ended.stdout + ended.stderr).not.toContain(password)
  })

  it.each([
    ['none', []],
    ['perKey', ['--order', 'perKey']],
  ])('are complete: a relay with the order %s works with them', async (_, more) => {
    // A privilege on any table allows the user to connect to the database.
    await using opened = await open((store) => `GRANT SELECT ON ${store.table('relays')}`)
    await using topic = await openTestTopic(rabbitmqUrl)
    const { store, args, world } = opened
    await world.fill(topic.topic, 1)
    for (const statement of findingOf(await ackord(['doctor', '--json', ...args, ...more]))?.statements ?? []) await store.define(statement)
    const ended = await ackord(['doctor', '--json', ...args, ...more])
    expect(findingOf(ended)).toMatchObject({ state: 'ok' })
    expect(ended.code).toBe(0)
    await expectWorks(args, topic, more)
  })
})

describe('missing permissions in Redis', () => {
  const durable = ['--appendonly', 'yes', '--appendfsync', 'always', '--maxmemory-policy', 'noeviction']

  /** A server with a user that has these rules. */
  async function open(...rules: readonly string[]) {
    const server = await startRedis({ args: durable })
    const admin = new Redis(server.url)
    await admin.call('ACL', 'SETUSER', 'app', 'on', `>${password}`, ...rules)
    return {
      url: server.url.replace('redis://', `redis://app:${password}@`),
      adminUrl: server.url,
      /** Runs a statement as it was printed. */
      async run(statement: string) {
        const [command = '', ...args] = statement.split(' ')
        expect(await admin.call(command, ...args)).toBe('OK')
      },
      async [Symbol.asyncDispose]() {
        admin.disconnect()
        await server[Symbol.asyncDispose]()
      },
    }
  }

  it.each([
    ['a stream outbox', [], { tag: ['orders'] }],
    ['a stream outbox with two tags', [], { tag: ['orders', 'invoices'] }],
    ['a Lua outbox in three shards', [], { tag: ['orders'], outbox: 'lua', shards: 3 }],
    ['a stream outbox, for a user who may do everything with other keys', ['+@all', '~other:*'], { tag: ['orders'] }],
  ] as const)('are complete as a statement: %s', async (_, rules, location) => {
    const more = Object.entries(location).flatMap(([option, value]) => [`--${option}`, String(value)])
    await using opened = await open(...rules)
    await using topic = await openTestTopic(rabbitmqUrl)
    const args = ['--store', opened.url, ...more]
    const ended = await ackord(['doctor', '--json', ...args])
    const { state, statements = [] } = findingOf(ended) ?? {}
    expect(state).toBe('problem')
    expect(ended.code).toBe(1)
    expect(ended.stdout + ended.stderr).not.toContain(password)
    expect(statements).toEqual([expect.stringMatching(/^ACL SETUSER app .*~\{orders\}\*/)])
    if (rules.length > 0) expect(statements[0]).not.toContain('+')
    for (const statement of statements) await opened.run(statement)
    const after = await ackord(['doctor', '--json', '--allow-unchecked', ...args])
    expect(findingOf(after)).toMatchObject({ state: 'ok' })
    expect(after.code).toBe(0)
    await fill(opened.adminUrl, location, topic.topic)
    await expectWorks(args, topic)
  })

  it.each(['stream', 'lua'])('are what a whole service needs, with its own commands: a %s outbox', async (kind) => {
    await using opened = await open()
    const [statement = ''] = findingOf(await ackord(['doctor', '--json', '--store', opened.url, '--outbox', kind]))?.statements ?? []
    await opened.run(statement)
    // For the data of the demo itself, and its removal.
    await opened.run('ACL SETUSER app +rpush +lrange +scan +unlink ~*')
    const { code, last, stderr } = await ackord(['demo', '--orders', '40', '--store', opened.url, '--outbox', kind, '--json'])
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    expect(last).toMatchObject({ applied: 40, lost: 0 })
  })

  it('name the one command that is missing', async () => {
    await using opened = await open('+@all', '-zadd', '~*')
    for (const more of [[], ['--outbox', 'lua']]) {
      const ended = await ackord(['doctor', '--json', '--store', opened.url, ...more])
      expect(findingOf(ended)).toMatchObject({ state: 'problem', statements: ['ACL SETUSER app +zadd'] })
      expect(ended.code).toBe(1)
    }
    const relay = await ackord(['relay', '--from', opened.url, '--outbox', 'lua', '--to', opened.adminUrl])
    expect(relay).toMatchObject({ code: 4, stdout: '' })
    expect(relay.stderr).toContain('The Lua outbox under {ackord} cannot be used: ZADD: ')
  })

  it('are tried without leaving a key behind that stays', async () => {
    await using opened = await open('+@all', '-set', '~*')
    const ended = await ackord(['doctor', '--json', '--store', opened.url])
    expect(findingOf(ended)?.statements).toEqual(['ACL SETUSER app +set +hincrby +hset +hsetnx +xadd +zadd +sadd'])
    const admin = new Redis(opened.adminUrl)
    const keys = await admin.keys('*')
    admin.disconnect()
    expect(keys).toEqual([])
  })
})

/** Stores a record as the administrator of the server. */
async function fill(url: string, location: StoreLocation, destination: string): Promise<void> {
  await using store = await openStore(url, { option: 'url', location, logger: silentLogger, secrets: new Secrets() })
  await store.append([record(destination, 'one')])
}

describe('the list of Redis commands', () => {
  /** In scripts, and as queued commands. */
  function commandsIn(folders: readonly string[]): ReadonlySet<string> {
    const found = new Set<string>()
    for (const folder of folders) {
      const path = fileURLToPath(new URL(`../../../redis/src/${folder}/`, import.meta.url))
      for (const file of readdirSync(path, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.ts'))) {
        const text = readFileSync(`${path}${file}`, 'utf8')
        for (const [, name = ''] of text.matchAll(/(?:\bp?call\(|\bname: |\btry\(|\bsend\(|\brun\()\s*'([A-Z]{3,})'/g)) found.add(name)
      }
    }
    return found
  }

  it.each([
    ['stream', ['inbox', 'outbox/stream']],
    ['lua', ['inbox', 'outbox/lua/scripts']],
  ] as const)('has every command of the %s outbox and of inboxes', (kind, folders) => {
    const listed = new Set(['SET', ...Object.keys(redisCommands.all), ...Object.keys(redisCommands[kind])])
    const found = commandsIn(folders)
    expect(found.size).toBeGreaterThan(12)
    expect([...found].filter((name) => !listed.has(name))).toEqual([])
  })
})
