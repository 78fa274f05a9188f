import { execFileSync } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { beforeAll, describe, expect, it } from 'vitest'
import { widthOf } from '../../src/output/text.ts'
import { ackord, runOn } from '../support/ackord.ts'
import { bundleMain } from '../support/bundle-main.ts'
import { clusterUrl, mariadbUrl, openTestStore, postgresUrl, record, redisUrl, type TestStore } from '../support/services.ts'
import { VirtualTerminal } from '../support/virtual-terminal.ts'

beforeAll(bundleMain)

interface ListedRecord {
  readonly id: string
  readonly state: string
  readonly destination: string
  readonly message_id: string
}

async function listed(world: TestStore, ...args: readonly string[]): Promise<readonly ListedRecord[]> {
  const { last, code } = await ackord(['list', '--json', ...world.args, ...args])
  expect(code).toBe(0)
  return last['records'] as ListedRecord[]
}

it('list finds records behind more than one page of the store', async () => {
  await using world = await openTestStore()
  const { store, args } = world
  if (store.kind !== 'sqlite') throw new Error('SQLite was expected.')
  await store.append([record('orders', 'common')])
  const columns = 'state, destination, id, type, partition, data, attributes, available_at'
  await store.define(`INSERT INTO ${store.table('outbox')} (${columns})
    WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 33000) SELECT ${columns} FROM ${store.table('outbox')}, numbers`)
  await store.append(['r1', 'r2', 'r3'].map((id) => record('orders', id, { type: 'order.lost' })))
  const { last, stdout } = await ackord(['list', '--json', '--type', 'order.lost', '--limit', '2', ...args])
  expect((last['records'] as ListedRecord[]).map(({ message_id: id }) => id)).toEqual(['r1', 'r2'])
  expect(stdout.trimEnd().split('\n')).toHaveLength(1)
  const rest = await ackord(['list', '--json', '--type', 'order.lost', '--after', String(last['next']), ...args])
  expect(rest.last).toMatchObject({ records: [{ message_id: 'r3' }], next: null })
  expect((await ackord(['list', '--type', 'none', ...args])).stdout).toBe('No records found.\n')
})

describe.each([
  ['PostgreSQL', postgresUrl],
  ['Redis', redisUrl],
] as const)('on %s', (_, url) => {
  it('cancel deletes waiting records, by id, message id or filter, and no others', async () => {
    await using world = await openTestStore(url)
    const delayed = (destination: string, id: string) => ({ ...record(destination, id), delay: 3_600_000 })
    await world.store.append([delayed('a', 'm1'), delayed('b', 'm1'), delayed('a', 'm2'), delayed('b', 'm3'), record('a', 'ready')])
    const waiting = await listed(world, '--state', 'waiting')
    const idOf = (messageId: string) => waiting.find(({ message_id: id }) => id === messageId)?.id ?? ''
    const cancel = (...args: readonly string[]) => ackord(['cancel', '--json', '--reason', 'order was paid', ...args, ...world.args])
    expect((await cancel('--destination', 'b', '--dry-run')).last).toEqual({ dry_run: true, records: 2 })
    expect((await cancel(idOf('m2'), (await listed(world, '--message-id', 'ready'))[0]?.id ?? '')).last).toEqual({ cancelled: 1 })
    expect(await cancel(idOf('m2'))).toMatchObject({ code: 1, last: { cancelled: 0 } })
    expect((await cancel('--message-id', 'm1', '--yes')).last).toEqual({ cancelled: 2 })
    expect((await cancel('--all', '--yes')).last).toEqual({ cancelled: 1 })
    expect(await cancel('--all', '--yes')).toMatchObject({ code: 0, last: { cancelled: 0 } })
    expect((await listed(world)).map(({ message_id: id }) => id)).toEqual(['ready'])
    expect((await ackord(['audit', '--json', ...world.args])).last).toMatchObject({ action: 'cancel', reason: 'order was paid', count: 1 })
    const people = await ackord(['cancel', '--message-id', 'm9', '--reason', 'x', '--yes', ...world.args])
    expect(people).toMatchObject({ code: 1, stdout: '0 records were cancelled.\nNo waiting record matches.\n' })
  })
})

describe.each([
  ['SQLite', undefined, {}],
  ['PostgreSQL', postgresUrl, {}],
  ['MariaDB', mariadbUrl, {}],
  ['Redis', redisUrl, {}],
  ['Redis, with the Lua outbox', redisUrl, { outbox: 'lua' }],
  ['a Redis Cluster', clusterUrl, {}],
  ['a Redis Cluster, with the Lua outbox in three shards', clusterUrl, { outbox: 'lua', shards: 3 }],
] as const)('on %s', (_, url, more) => {
  it('status counts by destination and state', async () => {
    await using world = await openTestStore(url, more)
    expect((await ackord(['status', ...world.args])).stdout).toContain('is empty')
    await world.fill('bad', 2)
    await world.park()
    await world.fill('orders', 3)
    const { code, last } = await ackord(['status', '--json', ...world.args])
    expect(code).toBe(0)
    expect(last).toMatchObject({ totals: { ready: 3, parked: 2, leased: 0 }, oldest_age_ms: expect.any(Number) })
    expect(last['destinations']).toHaveLength(2)
    const [waiting, still] = [{ oldest_age_ms: expect.any(Number) }, { oldest_age_ms: null }]
    const counts = { ready: 0, waiting: 0, leased: 0, parked: 0, published: 0 }
    expect(last['destinations']).toEqual(
      expect.arrayContaining([
        { destination: 'orders', ...counts, ready: 3, ...waiting },
        { destination: 'bad', ...counts, parked: 2, ...still },
      ]),
    )
    const people = await ackord(['status', ...world.args])
    expect(people.stdout).toMatch(/DESTINATION +READY/)
    expect(people.stdout).toMatch(/orders +3 +0 +0 +0 +0 +\d+ m?s\n/)
    expect(people.stdout).toMatch(/bad +0 +0 +0 +2 +0 +-\n/)
    expect(people.stdout).toContain('2 records are parked: ackord list --state parked')
  })

  it('list filters, and continues from page to page', async () => {
    await using world = await openTestStore(url, more)
    await world.store.append([record('a', 'a1'), record('a', 'a2', { type: 'order.paid' }), record('b', 'b1', { partitionkey: 'k' })])
    expect((await listed(world)).length).toBe(3)
    expect((await listed(world, '--destination', 'b')).map(({ message_id: id }) => id)).toEqual(['b1'])
    expect((await listed(world, '--type', 'order.paid')).map(({ message_id: id }) => id)).toEqual(['a2'])
    expect((await listed(world, '--key', 'k')).map(({ message_id: id }) => id)).toEqual(['b1'])
    expect(await listed(world, '--state', 'parked')).toEqual([])
    const first = await ackord(['list', '--json', '--limit', '2', ...world.args])
    const second = await ackord(['list', '--json', '--limit', '2', '--after', String(first.last['next']), ...world.args])
    const ids = [first, second].flatMap(({ last }) => (last['records'] as ListedRecord[]).map(({ message_id: id }) => id))
    expect(ids.sort()).toEqual(['a1', 'a2', 'b1'])
    expect(second.last['next']).toBeNull()
  })

  it('finds, parks, re-arms and discards the records of a message id', async () => {
    await using world = await openTestStore(url, more)
    await world.store.append([record('a', 'm1'), record('b', 'm1'), record('a', 'm2')])
    const named = ['--message-id', 'm1', ...world.args]
    const found = await listed(world, '--message-id', 'm1')
    expect(found.map(({ destination, message_id: id }) => [destination, id]).sort()).toEqual([
      ['a', 'm1'],
      ['b', 'm1'],
    ])
    expect(await listed(world, '--message-id', 'm1', '--destination', 'b')).toHaveLength(1)
    expect(await listed(world, '--message-id', 'm3')).toEqual([])

    const shown = await ackord(['show', '--json', '--data', ...named])
    const objects = shown.stdout
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as ListedRecord)
    expect(objects.map(({ id }) => id).sort()).toEqual(found.map(({ id }) => id).sort())
    expect((await ackord(['show', ...named])).stdout.match(/^message_id +m1$/gm)).toHaveLength(2)
    const missing = await ackord(['show', '--message-id', 'm3', ...world.args])
    expect(missing.stderr).toContain("There is no record of the message 'm3' in ")
    expect({ code: missing.code, stdout: missing.stdout }).toEqual({ code: 1, stdout: '' })

    expect((await ackord(['park', '--json', '--reason', 'wrong price', ...named])).last).toEqual({ parked: 2 })
    expect([await world.count('parked'), await world.count('ready')]).toEqual([2, 1])
    expect((await ackord(['park', '--reason', 'again', ...named])).code).toBe(1)
    expect((await ackord(['rearm', '--json', '--dry-run', ...named])).last).toEqual({ dry_run: true, records: 2 })
    expect((await ackord(['rearm', '--json', '--destination', 'a', ...named])).last).toEqual({ rearmed: 1 })
    expect((await ackord(['discard', '--json', '--reason', 'test', '--yes', ...named])).last).toEqual({ discarded: 1 })
    expect([await world.count('parked'), await world.count('ready')]).toEqual([0, 2])
    const again = await ackord(['rearm', ...named])
    expect(again).toMatchObject({ code: 1, stdout: '0 records are ready to be published again.\nNo parked record matches.\n' })
  })

  it('list prints a cursor that a shell does not split', async () => {
    await using world = await openTestStore(url, more)
    await world.store.append([record("it's", 'a1'), record("it's", 'a2'), record("it's", 'a3')])
    const { stdout } = await ackord(['list', '--limit', '2', ...world.args])
    const [, word = ''] = /More records: --after (.+)$/m.exec(stdout) ?? []
    const after = execFileSync('sh', ['-c', `printf %s ${word}`], { encoding: 'utf8' })
    expect((await listed(world, '--after', after)).map(({ message_id: id }) => id)).toEqual(['a3'])
  })

  it('list rejects an invalid cursor', async () => {
    await using world = await openTestStore(url, more)
    await world.fill('orders', 1)
    for (const after of ['bogus', '0', '[[0,1]]']) {
      const { code, stdout, stderr } = await ackord(['list', `--after=${after}`, ...world.args])
      expect(stderr).toContain('after is an invalid cursor')
      expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
    }
  })

  it('show prints attributes, and the payload only on request', async () => {
    await using world = await openTestStore(url, more)
    await world.fill('orders', 1)
    const [one] = await listed(world)
    const plain = await ackord(['show', ...world.args, String(one?.id)])
    expect(plain.stdout).toContain('source: /test')
    expect(plain.stdout).not.toContain('{"order"')
    expect((await ackord(['show', '--data', ...world.args, String(one?.id)])).stdout).toContain('{"order":"orders-0"}')
    const { last } = await ackord(['show', '--json', '--data', ...world.args, String(one?.id)])
    expect(Buffer.from(String(last['data_base64']), 'base64').toString()).toBe('{"order":"orders-0"}')
    expect((await ackord(['show', ...world.args, '999999'])).code).toBe(1)
  })

  it('park prevents records from being published until they are re-armed', async () => {
    await using world = await openTestStore(url, more)
    await world.fill('orders', 3)
    const [first, second] = await listed(world)
    const ids = [String(first?.id), String(second?.id)]
    expect((await ackord(['park', ...world.args, ...ids])).code).toBe(2)
    expect((await ackord(['park', '--json', '--reason', 'wrong price', ...world.args, ...ids])).last).toEqual({ parked: 2 })
    expect(await world.count('parked')).toBe(2)
    expect((await ackord(['show', ...world.args, String(first?.id)])).stdout).toContain('wrong price')
    // The records are parked already.
    expect((await ackord(['park', '--reason', 'again', ...world.args, ...ids])).code).toBe(1)
    expect((await ackord(['rearm', '--json', '--delay', '1h', ...world.args, ...ids])).last).toEqual({ rearmed: 2 })
    expect(await world.count('waiting')).toBe(2)
  })

  it('rearm and discard change only the selected records, and nothing with --dry-run', async () => {
    await using world = await openTestStore(url, more)
    await world.fill('a', 2)
    await world.fill('b', 3)
    await world.park()
    const [first] = await listed(world, '--destination', 'a')

    const dry = await ackord(['rearm', '--dry-run', '--json', '--destination', 'a', ...world.args])
    expect(dry.last).toEqual({ dry_run: true, records: 2 })
    expect(await world.count('parked')).toBe(5)

    expect((await ackord(['rearm', '--json', ...world.args, String(first?.id)])).last).toEqual({ rearmed: 1 })
    expect(await world.count('ready')).toBe(1)
    // The record is no longer parked.
    expect((await ackord(['rearm', ...world.args, String(first?.id)])).code).toBe(1)

    const edited = await ackord([
      'rearm',
      '--json',
      '--destination',
      'a',
      '--set-destination',
      'c',
      '--set-attribute',
      'note=again',
      ...world.args,
    ])
    expect(edited.last).toEqual({ rearmed: 1 })
    const [moved] = await listed(world, '--destination', 'c')
    expect(moved?.state).toBe('ready')
    expect((await ackord(['show', ...world.args, String(moved?.id)])).stdout).toContain('note: again')

    const look = await ackord(['discard', '--dry-run', '--all', '--json', ...world.args])
    expect(look.last).toEqual({ dry_run: true, records: 3 })
    const done = await ackord(['discard', '--all', '--yes', '--reason', 'gone for good', '--json', ...world.args])
    expect(done.last).toEqual({ discarded: 3 })
    expect(done.stderr).toContain('gone for good')
    expect([await world.count('parked'), await world.count('ready')]).toEqual([0, 2])
  })

  it('cleanup deletes old published records, expired idempotency keys and finished processes, and nothing else', async () => {
    await using world = await openTestStore(url, more)
    await world.fill('parked', 1)
    await world.park()
    await world.fill('ready', 2)
    // Redis Streams keep no published records.
    const keeps = world.store.kind !== 'redis' || 'outbox' in more
    if (keeps) {
      const retaining = world.store.outbox({ retain: true, logger: { debug() {}, info() {}, warn() {}, error() {} } })
      await world.fill('done', 5)
      const claims = await retaining.claim({ limit: 5, lease: 30_000, destinations: ['done'] })
      await retaining.settle(claims.map(({ id, token }) => ({ id, token, result: 'published' })))
      expect(await world.count('published')).toBe(5)
      expect((await ackord(['cleanup', '--json', ...world.args])).last).toEqual({
        inbox_deleted: 0,
        outbox_deleted: 0,
        idempotency_deleted: 0,
        process_deleted: 0,
      })
    }
    const { store } = world
    const isSql = store.kind !== 'redis'
    // Expired when the tables were created: an instant in the format of this database.
    if (isSql) {
      await store.define(`INSERT INTO ${store.table('idempotency')} (scope, request_key, fingerprint, token, lease_until, expires_at)
SELECT 'POST /orders', 'k1', 'f1', 't1', changed_at, changed_at FROM ${store.table('meta')} WHERE name = 'schema'`)
    }
    if (isSql) {
      await store.define(`INSERT INTO ${store.table('process')} (process, id, version, state, state_version, timeouts, started_at, changed_at, expires_at)
SELECT 'order', 'o1', 1, '{}', 1, '{}', changed_at, changed_at, changed_at FROM ${store.table('meta')} WHERE name = 'schema'`)
    }
    const { code, last } = await ackord(['cleanup', '--json', '--keep-published', '1ms', '--batch-size', '2', ...world.args])
    expect({ code, last }).toEqual({
      code: 0,
      last: { inbox_deleted: 0, outbox_deleted: keeps ? 5 : 0, idempotency_deleted: isSql ? 1 : 0, process_deleted: isSql ? 1 : 0 },
    })
    expect([await world.count('parked'), await world.count('ready'), await world.count('published')]).toEqual([1, 2, 0])
  })
})

describe('the stored error of a record', () => {
  it('is printed without the password that a relay wrote into it', async () => {
    await using world = await openTestStore()
    await world.fill('orders', 1)
    await world.park('connect amqp://user:pa55-w0rd@host failed')
    const [one] = await listed(world)
    const commands = [['list'], ['show', String(one?.id)], ['rearm', '--all', '--dry-run'], ['discard', '--all', '--dry-run']]
    for (const command of commands.flatMap((each) => [each, [...each, '--json']])) {
      const { code, stdout } = await ackord([...command, ...world.args])
      expect(code).toBe(0)
      expect(stdout).toContain('connect amqp://user:***@host failed')
      expect(stdout).not.toContain('pa55-w0rd')
    }
  })

  it('is masked before it is cut, and not cut if the output is not a terminal', async () => {
    await using world = await openTestStore(postgresUrl)
    await world.fill('orders', 1)
    await world.park(`${'x'.repeat(50)} amqp://user:pa55-w0rd-that-is-long@host ${'y'.repeat(200)}`)
    const { stdout } = await ackord(['list', ...world.args])
    expect(stdout).toContain(` amqp://user:***@host ${'y'.repeat(200)}\n`)
    for (let columns = 120; columns < 180; columns += 10) {
      const terminal = new VirtualTerminal(columns, 24)
      expect(await runOn(terminal, ['list', ...world.args]).ended).toBe(0)
      const screen = terminal.screen.join('\n')
      expect(screen).toMatch(/ x{10}.*…$/m)
      expect(stdout + screen).not.toContain('pa55')
    }
  })
})

describe('a table of records on a terminal', () => {
  it('fits, with whole ids, and has the message id if there is room', async () => {
    await using world = await openTestStore(postgresUrl)
    const id = '01890a5d-ac96-774b-bcce-b302099a8057'
    await world.store.append([record('注文-イベント-📦', id, { partitionkey: 'customer-4711', type: 'com.example.shop.order.placed' })])
    await world.park('no route to host')
    const [one] = await listed(world)
    for (const columns of [60, 80, 100, 140, 200]) {
      const terminal = new VirtualTerminal(columns, 24)
      expect(await runOn(terminal, ['list', ...world.args]).ended).toBe(0)
      const [headings = '', row = ''] = terminal.screen
      for (const line of terminal.screen) expect(widthOf(line)).toBeLessThanOrEqual(columns)
      expect(row).toMatch(new RegExp(`^${one?.id} `))
      expect([columns, headings.includes('MESSAGE ID'), row.includes(id)]).toEqual([columns, columns >= 140, columns >= 140])
      expect([columns, headings.includes('LAST ERROR')]).toEqual([columns, true])
    }
    const { stdout } = await ackord(['list', ...world.args])
    expect(stdout).toContain(`注文-イベント-📦  ${id}  com.example.shop.order.placed  customer-4711 `)
  })
})

describe('migrate', () => {
  it.each([
    ['PostgreSQL', postgresUrl],
    ['MariaDB', mariadbUrl],
  ])('creates, validates and prints the tables of %s', async (_, url) => {
    const prefix = `cli_test_${randomUUID().slice(0, 8)}_`
    const args = ['--store', url, '--prefix', prefix]
    const printed = await ackord(['migrate', 'print', ...args])
    expect(printed.stdout).toContain(`${prefix}outbox`)
    expect((await ackord(['migrate', 'validate', ...args])).code).toBe(5)
    try {
      const both = await Promise.all([ackord(['migrate', 'up', ...args]), ackord(['migrate', 'up', ...args])])
      expect(both.map(({ code }) => code)).toEqual([0, 0])
      expect((await ackord(['migrate', 'validate', '--json', ...args])).last).toMatchObject({ schema: 'valid' })
      expect((await ackord(['status', ...args])).code).toBe(0)
    } finally {
      await removeTables(url, prefix)
    }
  })

  it('prints without a server', async () => {
    for (const store of ['postgres:', 'mysql:', 'sqlite:']) {
      const { code, stdout } = await ackord(['migrate', 'print', '--store', store])
      expect(code).toBe(0)
      expect(stdout).toMatch(/CREATE TABLE .*ackord_outbox/)
    }
  })

  it('has nothing to do on Redis', async () => {
    for (const store of [redisUrl, clusterUrl]) {
      for (const command of ['up', 'print', 'validate']) {
        expect(await ackord(['migrate', command, '--store', store])).toMatchObject({ code: 0, stdout: 'Redis needs no tables.\n' })
      }
    }
  })
})

async function removeTables(url: string, prefix: string): Promise<void> {
  const world = await openTestStore(url, { prefix })
  await world[Symbol.asyncDispose]()
}
