import { commandHandler, Message, Router, rootContext, StoreRefusesWritesError, silentLogger } from '@ackord/core'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { recordingLogger } from '../../../core/test/support/recording-logger.ts'
import { deferred, FedSource, tracked, verdicts } from '../../../core/test/support/router-world.ts'
import { VirtualRuntime } from '../../../core/test/support/virtual-runtime.ts'
import { sqlOutbox, type TenantDatabasesOptions, type TransactionalOptions, tenantDatabases } from '../../src/index.ts'
import { fromSqlite } from '../../src/sqlite/index.ts'
import { nodeKind, type SqliteWorld, type TestClient, type TestHandle } from '../sqlite/support/sqlite-world.ts'
import { command, event, failureOf, handle } from '../support/world.ts'

const options: TransactionalOptions = { inbox: { consumer: 'orders' }, outbox: { destination: 'events' } }

type Opened = Awaited<ReturnType<ReturnType<typeof opener>['open']>>

/** Opens the files of the tenants, and counts how many are open. */
function opener(worlds: ReadonlyMap<string, SqliteWorld>) {
  const events: string[] = []
  const open = new Map<string, TestClient>()
  const counts = { now: 0, most: 0 }
  return {
    events,
    /** The open connections, by tenant. */
    clients: open,
    counts,
    async open(tenant: string) {
      const world = worlds.get(tenant)
      if (world === undefined) return undefined
      events.push(`open ${tenant}`)
      counts.now += 1
      counts.most = Math.max(counts.most, counts.now)
      const client = world.connect()
      open.set(tenant, client)
      const database = fromSqlite(client, { logger: silentLogger })
      return {
        database,
        outbox: sqlOutbox(database, { destination: 'events', source: '/orders', logger: silentLogger }),
        close() {
          events.push(`close ${tenant}`)
          counts.now -= 1
          client.close()
        },
      }
    },
  }
}

async function openTenants(names: readonly string[], { open, ...settings }: Partial<TenantDatabasesOptions<NonNullable<Opened>>> = {}) {
  const worlds = new Map<string, SqliteWorld>()
  for (const name of names) worlds.set(name, await nodeKind.open())
  const files = opener(worlds)
  const logger = recordingLogger()
  const runtime = new VirtualRuntime()
  const tenants = tenantDatabases({
    tenantOf: ({ subject }) => subject,
    open: open ?? files.open,
    logger,
    runtime,
    ...settings,
  })
  const worldOf = (name: string) => {
    const world = worlds.get(name)
    if (world === undefined) throw new Error(`There is no world '${name}'.`)
    return world
  }
  return {
    tenants,
    files,
    logger,
    runtime,
    worldOf,
    async [Symbol.asyncDispose]() {
      await tenants.close()
      for (const world of worlds.values()) await world[Symbol.asyncDispose]()
    },
  }
}

function insert(handle: TestHandle, id: string): void {
  handle.prepare('INSERT INTO orders (id) VALUES (?)').run(id)
}

const turns = async (count: number) => {
  for (let turn = 0; turn < count; turn += 1) await new Promise((resolve) => void setImmediate(resolve))
}

describe('transactional() of tenantDatabases()', () => {
  const step = fc.record({
    tenant: fc.constantFrom('a', 'b', 'c', 'd', 'e'),
    /** Few ids, so that there are duplicates, also of other tenants. */
    id: fc.integer({ min: 1, max: 6 }),
    before: fc.integer({ min: 0, max: 4 }),
    after: fc.integer({ min: 0, max: 4 }),
    fails: fc.boolean(),
  })

  it('never writes into the database of another tenant, however messages interleave and databases are closed', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(step, { maxLength: 40 }),
        fc.integer({ min: 1, max: 6 }),
        fc.integer({ min: 1, max: 12 }),
        fc.boolean(),
        async (steps, maxOpen, concurrency, grouped) => {
          await using world = await openTenants(['a', 'b', 'c', 'd', 'e'], { maxOpen })
          const { tenants, files } = world
          const expected = new Map<string, Set<string>>()
          const messages = steps.map(({ tenant, id, ...data }) => {
            if (!data.fails) expected.set(tenant, (expected.get(tenant) ?? new Set()).add(`${tenant}-${id}`))
            return tracked(String(id), { data: { ...data, order: `${tenant}-${id}` }, attributes: { subject: tenant } })
          })
          const router = new Router({ source: '/orders', concurrency, logger: silentLogger })
            .use(tenants.transactional({ ...options, ...(grouped && { groupCommit: { size: 3, groups: 1 } }) }))
            .handle(
              commandHandler(
                { type: 'order.place', source: '/orders' },
                async (data: { order: string; before: number; after: number; fails: boolean }) => {
                  await turns(data.before)
                  insert(tenants.executor(), data.order)
                  expect(data.order).toMatch(new RegExp(`^${tenants.tenant()}-`))
                  await turns(data.after)
                  if (data.fails) throw new Error('not today')
                  return [new Message({}, { type: 'order.placed', subject: data.order })]
                },
              ),
            )
          const source = new FedSource(messages)
          source.end()
          await router.run(source)
          expect(files.counts.most).toBeLessThanOrEqual(maxOpen)
          for (const tenant of ['a', 'b', 'c', 'd', 'e']) {
            const { query, count } = world.worldOf(tenant)
            const ids = [...(expected.get(tenant) ?? [])].sort()
            expect(query('SELECT id FROM orders ORDER BY id').map(({ id }) => id)).toEqual(ids)
            expect(count('ackord_inbox')).toBe(ids.length)
            const subjects = query('SELECT attributes FROM ackord_outbox').map(({ attributes }) => JSON.parse(String(attributes)).subject)
            expect(subjects.sort()).toEqual(ids)
          }
        },
      ),
      { numRuns: 40 },
    )
  })

  it('rejects a message without a tenant, and one of a tenant that does not exist', async () => {
    await using world = await openTenants(['a'])
    const router = new Router({ logger: silentLogger })
      .use(world.tenants.transactional(options))
      .handle({ type: 'order.place', handle: async () => [] })
    const messages = [tracked('1'), tracked('2', { attributes: { subject: 'nobody' } }), tracked('3', { attributes: { subject: 'a' } })]
    const source = new FedSource(messages)
    source.end()
    await router.run(source)
    expect(messages.flatMap(verdicts)).toEqual(['reject', 'reject', 'ack'])
    const [none, unknown] = messages.map(({ calls }) => calls[0]?.error)
    expect(none).toMatchObject({ code: 'ACKORD_TENANT_UNKNOWN', tenant: undefined })
    expect((none as Error).message).toMatch(/^tenantOf\(\) found no tenant for .*: it returned undefined\.$/)
    expect(unknown).toMatchObject({
      code: 'ACKORD_TENANT_UNKNOWN',
      tenant: 'nobody',
      message: "There is no database for the tenant 'nobody'.",
    })
  })

  it('does not pause the router when the database of one tenant refuses writes', async () => {
    await using world = await openTenants(['full', 'well'])
    const { tenants, files, runtime, logger } = world
    const router = new Router({ runtime, logger, concurrency: 2 }).use(tenants.transactional(options)).handle({
      type: 'order.place',
      handle: async ({ id = '' }) => {
        insert(tenants.executor(), id)
        return []
      },
    })
    await tenants.use('full', async () => {})
    files.clients.get('full')?.exec('PRAGMA query_only = 1')
    const of = (subject: string, ...ids: readonly string[]) => ids.map((id) => tracked(id, { attributes: { subject } }))
    const first = of('full', '1', '2', '3')
    const second = of('well', '4', '5')
    const source = new FedSource([...first, ...second])
    const running = router.run(source)
    await runtime.advance(0)
    expect(first.flatMap(verdicts)).toEqual(['nack', 'nack', 'nack'])
    expect(second.flatMap(verdicts)).toEqual(['ack', 'ack'])
    expect(first[0]?.calls[0]).toMatchObject({ error: { code: 'ACKORD_TENANT_UNAVAILABLE', tenant: 'full' } })
    expect(tenants.health().unavailable).toEqual(['full'])
    // After the back-off one message at a time tries it.
    await runtime.advance(600)
    files.clients.get('full')?.exec('PRAGMA query_only = 0')
    const third = of('full', '6')
    source.push(...third)
    await runtime.advance(0)
    expect(third.flatMap(verdicts)).toEqual(['ack'])
    expect(tenants.health().unavailable).toEqual([])
    expect(logger.at('warn')).toMatchObject([{ fields: { tenant: 'full' } }])
    source.end()
    await running
  })

  it('does not take the refusal of another store, or the error of a handler, for an outage of the tenant', async () => {
    await using world = await openTenants(['a'])
    const { tenants } = world
    const fails = (error: Error) =>
      failureOf(
        handle(
          tenants.transactional(options),
          async () => {
            throw error
          },
          command('1', { subject: 'a' }).message,
        ),
      )
    const refusal = new StoreRefusesWritesError('Redis', 'OOM')
    expect(await fails(refusal)).toBe(refusal)
    const plain = new Error('not today')
    expect(await fails(plain)).toBe(plain)
    expect(tenants.health().unavailable).toEqual([])
  })

  it('nacks the messages of a tenant that is not migrated, until it is', async () => {
    await using empty = await nodeKind.open({ empty: true })
    await using world = await openTenants(['a'], { open: opener(new Map([['new', empty]])).open })
    const { tenants, runtime } = world
    const process = async () => []
    const one = () => handle(tenants.transactional(options), process, command('1', { subject: 'new' }).message)
    expect(await failureOf(one())).toMatchObject({ code: 'ACKORD_TENANT_UNAVAILABLE', cause: { code: 'ACKORD_SCHEMA' } })
    expect((await tenants.createSchemas(['new'])).failed.get('new')).toMatchObject({ code: 'ACKORD_TENANT_UNAVAILABLE' })
    await runtime.advance(1000)
    expect(await tenants.createSchemas(['new', 'other', 'new'])).toMatchObject({ migrated: ['new'] })
    expect(await one()).toEqual([])
  })

  it('validates its options before a message arrives, and its place among other middleware', async () => {
    await using world = await openTenants([])
    const { tenants } = world
    expect(() => tenants.transactional({ ...options, inbox: { consumer: '' } })).toThrow('consumer must be a non-empty string')
    expect(() => tenants.transactional({ ...options, outbox: { destination: 'x', order: 'none', odd: 1 } as never })).toThrow(
      "has no option 'odd'",
    )
    expect(() => tenants.transactional({ ...options, groupCommit: { size: 1 } })).toThrow(
      'groupCommit.size must be a whole number, 2 or more',
    )
    expect(() => tenantDatabases({ tenantOf: () => 'a', open: () => undefined, maxOpen: 0 })).toThrow('maxOpen must be')
    expect(() => tenantDatabases({ tenantOf: () => 'a', open: () => undefined, odd: 1 } as never)).toThrow("has no option 'odd'")
    const router = new Router({ logger: silentLogger })
      .use(tenants.transactional(options), tenants.transactional(options))
      .handle({ type: 'order.place', handle: async () => [] })
    await expect(router.run(new FedSource())).rejects.toMatchObject({ code: 'ACKORD_MIDDLEWARE_ORDER' })
  })
})

describe('write(), use() and the current tenant', () => {
  it('store business rows and events of a request in the database of its tenant', async () => {
    await using world = await openTenants(['a', 'b'])
    const { tenants } = world
    const result = await tenants.write('b', async (transaction, { outbox }, context) => {
      insert(transaction, 'o1')
      await outbox.append(transaction, event('e1'))
      expect(tenants.executor(context)).toBe(transaction)
      expect(tenants.executor()).toBe(transaction)
      return tenants.tenant()
    })
    expect(result).toBe('b')
    expect(['a', 'b'].map((name) => [world.worldOf(name).count('orders'), world.worldOf(name).count('ackord_outbox')])).toEqual([
      [0, 0],
      [1, 1],
    ])
    expect(() => tenants.executor()).toThrow('executor() of tenantDatabases() found no transaction')
    await expect(tenants.write('', async () => {})).rejects.toMatchObject({ code: 'ACKORD_TENANT_UNKNOWN' })
  })

  it('are a savepoint in a message of the same tenant, and a transaction of their own in one of another, even with one place', async () => {
    await using world = await openTenants(['a', 'b'], { maxOpen: 2 })
    const { tenants } = world
    const failing = handle(
      tenants.transactional(options),
      async () => {
        await tenants.write('a', async (transaction) => insert(transaction, 'inner'))
        await tenants.write('b', async () => {
          insert(tenants.executor(), 'other')
        })
        expect(tenants.tenant()).toBe('a')
        throw new Error('rolled back')
      },
      command('1', { subject: 'a' }).message,
    )
    await failureOf(failing)
    expect(['a', 'b'].map((name) => world.worldOf(name).count('orders'))).toEqual([0, 1])
  })
})

describe('the open databases of tenants', () => {
  it('are opened once for concurrent calls, closed when they were not used for a while, and never while they are used', async () => {
    await using world = await openTenants(['a'], { idleTimeout: 1000 })
    const { tenants, files, runtime } = world
    const gate = deferred()
    const using = [1, 2, 3].map(() => tenants.use('a', () => gate.promise))
    await runtime.advance(5000)
    expect(files.events).toEqual(['open a'])
    gate.resolve()
    await Promise.all(using)
    await runtime.advance(900)
    await tenants.use('a', async () => {})
    await runtime.advance(999)
    expect(files.events).toEqual(['open a'])
    await runtime.advance(2000)
    expect(files.events).toEqual(['open a', 'close a'])
    await tenants.use('a', async () => {})
    expect(files.events).toEqual(['open a', 'close a', 'open a'])
    expect(tenants.health()).toEqual({ open: 1, inUse: 0, waiting: 0, unavailable: [] })
  })

  it('give their places to others: the least recently used one first, and one in use when it is released', async () => {
    await using world = await openTenants(['a', 'b', 'c', 'd'], { maxOpen: 2 })
    const { tenants, files, runtime } = world
    for (const name of ['a', 'b', 'a', 'c']) await tenants.use(name, async () => {})
    expect(files.events).toEqual(['open a', 'open b', 'close b', 'open c'])
    const gates = [deferred(), deferred()]
    const busy = ['a', 'c'].map((name, index) => tenants.use(name, async () => await gates[index]?.promise))
    const waiting = ['d', 'd', 'd'].map((name) => tenants.use(name, async () => name))
    await runtime.advance(10)
    expect(tenants.health()).toMatchObject({ open: 2, inUse: 2, waiting: 3 })
    // It was opened first, so it accepts no further calls: with steady traffic the others would wait for ever.
    const later = tenants.use('a', async () => 'again')
    gates[0]?.resolve()
    expect(await Promise.all(waiting)).toEqual(['d', 'd', 'd'])
    expect(await later).toBe('again')
    expect(files.events.slice(4)).toEqual(['close a', 'open d', 'close d', 'open a'])
    gates[1]?.resolve()
    await Promise.all(busy)
    expect(files.counts.most).toBe(2)
  })

  it('accept calls again when nobody waits for their place any more', async () => {
    await using world = await openTenants(['a', 'b'], { maxOpen: 1 })
    const { tenants, files } = world
    const gate = deferred()
    const inside = deferred()
    const busy = tenants.use('a', () => {
      inside.resolve()
      return gate.promise
    })
    await inside.promise
    const stopping = new AbortController()
    const other = failureOf(tenants.write('b', async () => {}, { context: rootContext({ signal: stopping.signal }) }))
    const same = tenants.use('a', async () => 'same')
    await turns(2)
    expect(tenants.health().waiting).toBe(2)
    stopping.abort(new Error('stopped'))
    await other
    expect(await same).toBe('same')
    expect(files.events).toEqual(['open a'])
    gate.resolve()
    await busy
  })

  it('are waited for, but not for ever, and without an outage of the tenant', async () => {
    await using world = await openTenants(['a', 'b'], { maxOpen: 1 })
    const { tenants, runtime } = world
    const gate = deferred()
    const busy = tenants.use('a', () => gate.promise)
    const failing = failureOf(tenants.use('b', async () => {}))
    const stopping = new AbortController()
    const stopped = failureOf(tenants.write('b', async () => {}, { context: rootContext({ signal: stopping.signal }) }))
    stopping.abort(new Error('stopped'))
    expect(await stopped).toMatchObject({ message: 'stopped' })
    await runtime.advance(10_000)
    expect(await failing).toMatchObject({
      code: 'ACKORD_TENANT_UNAVAILABLE',
      message: "The database of the tenant 'b' could not be opened within 10000 ms: maxOpen (1) others are in use.",
    })
    expect(tenants.health().unavailable).toEqual([])
    gate.resolve()
    await busy
    await tenants.use('b', async () => {})
  })

  it('are tried again after a failed open with a growing delay, by one call at a time', async () => {
    let mode: 'fails' | 'hangs' | 'works' = 'fails'
    let calls = 0
    const late = deferred()
    const file = await nodeKind.open()
    const files = opener(new Map([['a', file]]))
    await using world = await openTenants([], {
      backoff: (attempt) => attempt * 100,
      async open(tenant) {
        calls += 1
        if (mode === 'fails') throw new Error('connect ECONNREFUSED')
        if (mode === 'hangs') await late.promise
        return await files.open(tenant)
      },
    })
    const { tenants, runtime, logger } = world
    const use = () => tenants.use('a', async () => 'ok')
    const errors = await Promise.all([failureOf(use()), failureOf(use())])
    for (const error of errors)
      expect(error).toMatchObject({ code: 'ACKORD_TENANT_UNAVAILABLE', cause: { message: 'connect ECONNREFUSED' } })
    await runtime.advance(99)
    await failureOf(use())
    expect(calls).toBe(1)
    await runtime.advance(1)
    mode = 'hangs'
    const [trying, other] = [failureOf(use()), failureOf(use())]
    expect(await other).toMatchObject({ code: 'ACKORD_TENANT_UNAVAILABLE' })
    await runtime.advance(10_000)
    expect(await trying).toMatchObject({ cause: { message: 'open() has not resolved within 10000 ms.' } })
    expect(calls).toBe(2)
    // What arrives too late is closed.
    late.resolve()
    await runtime.advance(0)
    expect(files.events).toEqual(['open a', 'close a'])
    await runtime.advance(200)
    mode = 'works'
    expect(await use()).toBe('ok')
    expect(logger.lines.filter(({ level }) => level !== 'debug').map(({ level }) => level)).toEqual(['warn', 'info'])
    await tenants.close()
    await file[Symbol.asyncDispose]()
  })

  it('are closed in the end, when nothing uses them any more', async () => {
    await using world = await openTenants(['a', 'b'])
    const { tenants, files } = world
    const gate = deferred()
    const inside = deferred()
    const busy = tenants.use('a', async () => {
      inside.resolve()
      await gate.promise
    })
    await inside.promise
    await tenants.use('b', async () => {})
    const closing = tenants.close()
    await turns(3)
    expect(files.events).toEqual(['open a', 'open b', 'close b'])
    expect(await failureOf(tenants.use('a', async () => {}))).toMatchObject({ code: 'ACKORD_SHUTDOWN' })
    gate.resolve()
    await Promise.all([busy, closing])
    expect(files.events.at(-1)).toBe('close a')
    await tenants.close()
  })
})
