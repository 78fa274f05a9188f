import { commandHandler, MemoryBroker, Message, Router, silentLogger } from '@ackord/core'
import { RelayGroup } from '@ackord/outbox'
import { type FaultProxy, startFaultProxy } from '@ackord/testkit'
import { expect, it, vi } from 'vitest'
import { ownName } from '../../../../scripts/test-run.mjs'
import { FedSource, tracked, verdicts } from '../../../core/test/support/router-world.ts'
import { sqlOutbox, tenantDatabases } from '../../src/index.ts'
import { fromPg } from '../../src/postgres/index.ts'
import { pg } from '../support/pg.ts'
import { openPg, postgresUrl } from '../support/world.ts'

const options = { inbox: { consumer: 'orders' }, outbox: { destination: 'events' } }
const quiet = { logger: silentLogger }
const until = (check: () => void | Promise<void>) => vi.waitFor(check, { timeout: 15_000, interval: 10 })

/** Databases on the server, which are dropped in the end. */
class Databases {
  readonly #admin = new pg.Pool({ connectionString: postgresUrl, max: 1 })
  readonly #names: string[] = []

  async create(tenant: string): Promise<string> {
    const name = `ackord_${ownName()}_${tenant}`.toLowerCase().replace(/[^a-z0-9_]/g, '_')
    await this.#admin.query(`CREATE DATABASE ${name}`)
    this.#names.push(name)
    const url = new URL(postgresUrl)
    url.pathname = `/${name}`
    return url.href
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const name of this.#names) await this.#admin.query(`DROP DATABASE ${name} WITH (FORCE)`)
    await this.#admin.end()
  }
}

function openPool(connectionString: string, max = 4) {
  const pool = new pg.Pool({ connectionString, max, connectionTimeoutMillis: 2000 })
  // A connection that breaks while it is unused.
  pool.on('error', () => {})
  return pool
}

it.each([false, true])('keeps tenants in schemas of one database apart (group commit: %s)', async (grouped) => {
  await using a = await openPg()
  await using b = await openPg()
  await using c = await openPg()
  const schemas = new Map(Object.entries({ a, b, c }))
  const pool = openPool(postgresUrl, 8)
  await using tenants = tenantDatabases({
    tenantOf: ({ subject }) => subject,
    open(tenant) {
      const schema = schemas.get(tenant)?.schema
      return schema === undefined ? undefined : { database: fromPg(pool, { schema, ...quiet }), schema }
    },
    ...quiet,
  })
  const messages = Array.from({ length: 90 }, (_, index) =>
    // Each id is used by all tenants, and delivered twice to each.
    tracked(String(Math.floor(index / 6)), {
      data: { id: String(Math.floor(index / 6)) },
      attributes: { subject: 'abc'[index % 3] ?? '' },
    }),
  )
  const router = new Router({ source: '/orders', concurrency: 12, ...quiet })
    .use(tenants.transactional({ ...options, ...(grouped && { groupCommit: { size: 4, groups: 1 } }) }))
    .handle(
      commandHandler({ type: 'order.place', source: '/orders' }, async ({ id }: { id: string }) => {
        const tenant = tenants.tenant()
        await tenants.executor().query(`INSERT INTO ${tenants.current()?.schema}.orders (id, note) VALUES ($1, $2)`, [id, tenant])
        return [new Message({ id }, { type: 'order.placed', subject: tenant })]
      }),
    )
  const source = new FedSource(messages)
  source.end()
  await router.run(source)
  for (const [tenant, { query }] of schemas) {
    expect(await query('SELECT note, count(*)::int AS n FROM orders GROUP BY note')).toEqual([{ note: tenant, n: 15 }])
    const events = await query("SELECT attributes::jsonb->>'subject' AS subject, count(*)::int AS n FROM ackord_outbox GROUP BY 1")
    expect(events).toEqual([{ subject: tenant, n: 15 }])
  }
  await pool.end()
})

it('serves tenants with databases of their own while one of these is unreachable, hangs, and comes back; and finds a new tenant', async () => {
  await using databases = new Databases()
  const direct = new Map<string, string>()
  for (const tenant of ['a', 'b']) direct.set(tenant, await databases.create(tenant))
  await using proxy: FaultProxy = await startFaultProxy(direct.get('b') ?? '')
  const urlOf = (tenant: string) => (tenant === 'b' ? proxy.url : direct.get(tenant))

  await using tenants = tenantDatabases({
    tenantOf: ({ subject }) => subject,
    open(tenant) {
      const url = urlOf(tenant)
      if (url === undefined) return undefined
      const pool = openPool(url)
      return { database: fromPg(pool, quiet), pool, close: () => pool.end() }
    },
    backoff: () => 50,
    ...quiet,
  })
  const prepare = async (names: readonly string[]) => {
    expect(await tenants.createSchemas(names)).toMatchObject({ migrated: expect.arrayContaining([...names]) })
    for (const name of names) await tenants.use(name, ({ pool }) => pool.query('CREATE TABLE orders (id text PRIMARY KEY)'))
  }
  await prepare(['a', 'b'])
  expect((await tenants.createSchemas(['nobody'])).failed.get('nobody')).toMatchObject({ code: 'ACKORD_TENANT_UNKNOWN' })

  const published = new MemoryBroker({ history: Infinity })
  const polling = { interval: 50, pollInterval: 20, maxPollInterval: 50 }
  await using relays = new RelayGroup(
    {},
    {
      publisher: published,
      ...quiet,
      pollInterval: polling.pollInterval,
      maxPollInterval: polling.maxPollInterval,
      discover: {
        names: () => direct.keys(),
        interval: polling.interval,
        open(name) {
          const pool = openPool(urlOf(name) ?? '', 2)
          return { store: sqlOutbox(fromPg(pool, quiet), quiet), close: () => pool.end() }
        },
      },
    },
  ).start()

  const source = new FedSource()
  const router = new Router({
    source: '/orders',
    concurrency: 4,
    fairness: { by: ({ subject }) => subject, concurrency: 2, excess: 'wait' },
    ...quiet,
  })
    .use(tenants.transactional(options))
    .handle(
      commandHandler({ type: 'order.place', source: '/orders' }, async ({ id }: { id: string }) => {
        await tenants.executor().query('INSERT INTO orders (id) VALUES ($1)', [id])
        return [new Message({ id }, { type: 'order.placed', subject: tenants.tenant() })]
      }),
    )
  const running = router.run(source)
  let count = 0
  const send = (subject: string, amount: number) => {
    const sent = Array.from({ length: amount }, () => {
      count += 1
      return tracked(`m${count}`, { data: { id: `m${count}` }, attributes: { subject } })
    })
    source.push(...sent)
    return sent
  }
  const acked = (sent: ReturnType<typeof send>) => until(() => expect(sent.flatMap(verdicts)).toEqual(sent.map(() => 'ack')))
  const eventsOf = (tenant: string) =>
    new Set(
      published
        .published('events')
        .filter(({ subject }) => subject === tenant)
        .map(({ id }) => id),
    ).size

  await acked([...send('a', 5), ...send('b', 5)])
  await until(() => expect([eventsOf('a'), eventsOf('b')]).toEqual([5, 5]))

  proxy.refuse(true)
  proxy.cut()
  const refused = send('b', 10)
  await acked(send('a', 10))
  await until(() => expect(refused.flatMap(verdicts)).toEqual(refused.map(() => 'nack')))
  expect(refused.map(({ calls }) => calls[0]?.error)).toContainEqual(
    expect.objectContaining({ code: 'ACKORD_TENANT_UNAVAILABLE', tenant: 'b' }),
  )
  await until(() => expect([eventsOf('a'), relays.health().stores['b']?.store]).toEqual([15, 'down']))
  expect(tenants.health().unavailable).toEqual(['b'])

  // What the broker delivers again is handled when the database is back.
  proxy.refuse(false)
  await until(async () => {
    const [again] = send('b', 1)
    await until(() => expect(again?.calls).toHaveLength(1))
    expect(again?.calls[0]?.verdict).toBe('ack')
  })
  expect(tenants.health().unavailable).toEqual([])

  // It accepts bytes and answers nothing: its messages wait in the slots that fairness leaves to one tenant.
  proxy.hold()
  const held = send('b', 6)
  await acked(send('a', 10))
  expect(held.flatMap(verdicts)).toEqual([])
  proxy.release()
  await acked(held)

  direct.set('c', await databases.create('c'))
  await prepare(['c'])
  await acked(send('c', 3))
  await until(() => expect(Object.keys(relays.health().stores).sort()).toEqual(['a', 'b', 'c']))
  for (const tenant of ['a', 'b', 'c']) {
    const rows = await tenants.use(tenant, async ({ pool }) => (await pool.query('SELECT id FROM orders')).rows)
    await until(() => expect(eventsOf(tenant)).toBe(rows.length))
  }
  expect([eventsOf('a'), eventsOf('c')]).toEqual([25, 3])
  source.end()
  await running
  await relays.stop()
})
