import { commandHandler, Message, type Publisher, Router, silentLogger, systemRuntime } from '@ackord/core'
import { type NewOutboxRecord, type OutboxDelivery, outboxSource, Relay } from '@ackord/outbox'
import { deferred, sourceOf, trackedMessage } from '@ackord/testkit'
import { describe, expect, it } from 'vitest'
import { cleanInbox, sqlOutbox, transactional, transactionMiddleware } from '../../src/index.ts'
import { countdown } from '../support/countdown.ts'
import { event, handle, openPg, type TestHandle, type World } from '../support/world.ts'

// Tests for the pitfalls in docs/pitfalls.md that no other file covers. The numbers refer to that page.

const failure = new Error('failed')
const all = { limit: 100, lease: 60_000 }

function storeOf({ database }: World) {
  return sqlOutbox(database, { logger: silentLogger })
}

function recordOf(id: string): NewOutboxRecord {
  return { destination: 'events', message: new Message(new Uint8Array([1]), event(id).attributes) }
}

/** Appends records and commits. */
async function add({ database }: World, ...ids: readonly string[]): Promise<void> {
  await handle(transactionMiddleware(database), async () => {
    await sqlOutbox(database).append(database.executor(), ids.map(recordOf))
    return []
  })
}

/** A publisher whose `called` resolves when it is called, and that responds only after `answer()`. */
function heldPublisher(): { readonly publisher: Publisher; readonly called: Promise<void>; answer(): void; readonly sent: string[] } {
  const called = deferred()
  const answered = deferred()
  const sent: string[] = []
  return {
    sent,
    called: called.promise,
    answer: answered.resolve,
    publisher: {
      async publish(_, messages) {
        called.resolve()
        await answered.promise
        sent.push(...messages.map(({ id = '' }) => id))
        return messages.map(() => ({ ok: true }))
      },
    },
  }
}

describe('A9: forward and a transaction', () => {
  it('do not run a handler again whose transaction was committed, when its event cannot be published', async () => {
    await using world = await openPg()
    const { database } = world
    let calls = 0
    const router = new Router({ ackStrategy: 'forward', source: '/orders', logger: silentLogger })
      .use(transactional(database, { inbox: { consumer: 'orders' }, outbox: { destination: 'events' } }))
      .handle(
        commandHandler({ type: 'order.place', source: '/orders' }, async () => {
          calls += 1
          await database.executor().query("INSERT INTO orders VALUES ('1')")
          return [new Message({}, { type: 'order.placed' })]
        }),
      )
    const [first, again] = [trackedMessage('m-1', { data: {} }), trackedMessage('m-1', { data: {} })]
    await router.run(sourceOf(first))
    const refused = countdown(1)
    const publisher: Publisher = {
      async publish(_, messages) {
        refused.hit()
        return messages.map(() => ({ ok: false, error: failure }))
      },
    }
    await using relay = new Relay(storeOf(world), { publisher, logger: silentLogger }).start()
    await refused.reached
    await relay.stop()
    await router.run(sourceOf(again))
    expect([calls, await world.orders(), await world.outbox()]).toEqual([1, 1, 1])
    expect([...first.verdicts, ...again.verdicts]).toEqual(['ack', 'ack'])
  })
})

describe('A23: a graceful stop', () => {
  it('of a relay settles what is being published, and no other relay publishes it again', async () => {
    await using world = await openPg()
    await add(world, 'e1', 'e2')
    const { publisher, called, answer, sent } = heldPublisher()
    const relay = new Relay(storeOf(world), { publisher, logger: silentLogger }).start()
    await called
    const stopped = relay.stop()
    answer()
    await stopped
    expect([sent, await world.outbox()]).toEqual([['e1', 'e2'], 0])
  })

  it('of a source by its signal lets yielded records be acked, and releases the rest', async () => {
    await using world = await openPg()
    await add(world, 'e1', 'e2', 'e3')
    const stop = new AbortController()
    await using source = outboxSource(storeOf(world), { signal: stop.signal, logger: silentLogger })
    const yielded: OutboxDelivery[] = []
    for await (const delivery of source) {
      yielded.push(delivery)
      stop.abort()
    }
    expect(await yielded[0]?.message.ack()).toBe(true)
    expect(await world.query('SELECT id, lease_token, attempts FROM ackord_outbox ORDER BY seq')).toEqual(
      ['e2', 'e3'].map((id) => ({ id, lease_token: null, attempts: 0 })),
    )
  })

  it('of a router commits and acks the messages being handled', async () => {
    await using world = await openPg()
    const { database } = world
    const begun = deferred()
    const goOn = deferred()
    const stop = new AbortController()
    const router = new Router({ source: '/orders', logger: silentLogger })
      .use(transactional(database, { inbox: { consumer: 'orders' }, outbox: { destination: 'events' } }))
      .handle(
        commandHandler({ type: 'order.place', source: '/orders' }, async () => {
          await database.executor().query("INSERT INTO orders VALUES ('1')")
          begun.resolve()
          await goOn.promise
          return [new Message({}, { type: 'order.placed' })]
        }),
      )
    const tracked = trackedMessage('m-1', { data: {} })
    const running = router.run(sourceOf(tracked), { signal: stop.signal })
    await begun.promise
    stop.abort()
    goOn.resolve()
    await running
    expect([await world.orders(), await world.inbox(), await world.outbox(), tracked.verdicts]).toEqual([1, 1, 1, ['ack']])
  })
})

it('A24: a source on a pool of one connection is acked while it is read', async () => {
  await using world = await openPg({ max: 1 })
  await add(world, 'e1', 'e2', 'e3')
  const read: unknown[] = []
  for await (const { message } of outboxSource(storeOf(world), { batchSize: 2, logger: silentLogger })) {
    read.push(message.id)
    await message.ack()
    if (read.length === 3) break
  }
  expect([read, await world.outbox()]).toEqual([['e1', 'e2', 'e3'], 0])
})

describe('the relay’s statements', () => {
  it('3: hold no transaction and no connection while the broker is publishing', async () => {
    await using world = await openPg({ max: 1 })
    await add(world, 'e1')
    const { publisher, called, answer } = heldPublisher()
    await using relay = new Relay(storeOf(world), { publisher, logger: silentLogger }).start()
    await called
    expect((await world.pool.query('SELECT 1 AS free')).rows).toEqual([{ free: 1 }])
    const open = `SELECT 1 FROM pg_stat_activity WHERE xact_start IS NOT NULL AND query LIKE $1 AND pid <> pg_backend_pid()`
    expect(await world.query(open, [`%${world.schema}%`])).toEqual([])
    answer()
    await relay.stop()
    expect(await world.outbox()).toBe(0)
  })

  it('N5: are one claim and one settle for a batch of 300', async () => {
    await using world = await openPg({ max: 1 })
    await add(world, ...Array.from({ length: 300 }, (_, index) => `e${index}`))
    const sent: string[] = []
    const client = await world.client()
    const query = client.query.bind(client)
    Object.assign(client, {
      query(...given: Parameters<typeof query>) {
        sent.push(/\b(INSERT|UPDATE|DELETE)\b/.exec(String(given[0]))?.[0] ?? String(given[0]))
        return query(...given)
      },
    })
    client.release()
    const store = storeOf(world)
    const claimed = await store.claim({ limit: 500, lease: 60_000 })
    await store.settle(claimed.map(({ id, token }) => ({ id, token, result: 'published' })))
    expect([claimed.length, sent.length, await world.outbox()]).toEqual([300, 2, 0])
  })

  it('10: change leases in place, without a new entry in any index', async () => {
    await using world = await openPg({ max: 1 })
    await add(world, ...Array.from({ length: 100 }, (_, index) => `e${index}`))
    // The pool has one connection, so the claim runs in this transaction. Only this transaction sees its own counts.
    await world.pool.query('BEGIN')
    const claimed = await storeOf(world).claim(all)
    const { rows } = await world.pool.query(
      'SELECT n_tup_upd::int AS updated, n_tup_hot_upd::int AS hot FROM pg_stat_xact_user_tables WHERE schemaname = $1 AND relname = $2',
      [world.schema, 'ackord_outbox'],
    )
    await world.pool.query('ROLLBACK')
    expect([claimed.length, rows[0].updated]).toEqual([100, 100])
    // A row with a lease is slightly longer, so the last rows of a page may not fit on it.
    expect(rows[0].hot).toBeGreaterThan(80)
  })

  it('9: use the database’s clock, even if the clock of a process is a day ahead or behind', async () => {
    await using world = await openPg()
    const day = 24 * 60 * 60 * 1000
    for (const shift of [day, -day]) {
      await add(world, `fails ${shift}`, `works ${shift}`)
      const runtime = { ...systemRuntime, now: () => systemRuntime.now() + shift }
      const store = sqlOutbox(world.database, { logger: silentLogger, runtime })
      const settled = countdown(1)
      const publisher: Publisher = {
        async publish(_, messages) {
          settled.hit()
          return messages.map(({ id }) => (id?.startsWith('fails') ? { ok: false, error: failure } : { ok: true }))
        },
      }
      await using relay = new Relay(store, { publisher, runtime, logger: silentLogger, backoff: () => 60_000 }).start()
      await settled.reached
      await relay.stop()
    }
    const waiting = `SELECT id, state, available_at BETWEEN clock_timestamp() + interval '50 seconds' AND clock_timestamp() + interval '70 seconds' AS in_time`
    expect(await world.query(`${waiting} FROM ackord_outbox ORDER BY seq`)).toEqual(
      [`fails ${day}`, `fails ${-day}`].map((id) => ({ id, state: 'waiting', in_time: true })),
    )
  })
})

it('7: an event that was stored first and committed last is not missed', async () => {
  await using world = await openPg()
  const store = storeOf(world)
  const client = await world.client()
  await client.query('BEGIN')
  await store.append(client as unknown as TestHandle, [recordOf('first')])
  await add(world, 'second')
  const early = await store.claim(all)
  expect(early.map(({ message }) => message.id)).toEqual(['second'])
  await store.settle(early.map(({ id, token }) => ({ id, token, result: 'published' })))
  await client.query('COMMIT')
  client.release()
  const late = await store.claim(all)
  expect(late.map(({ message }) => message.id)).toEqual(['first'])
  expect(Number(late[0]?.id)).toBeLessThan(Number(early[0]?.id))
})

it('6.6: sequence numbers beyond 32 bits, and beyond the precision of a JavaScript number, are claimed and settled', async () => {
  await using world = await openPg()
  const store = storeOf(world)
  for (const start of ['2147483647', '9007199254740992']) {
    await world.query(`ALTER TABLE ackord_outbox ALTER seq RESTART WITH ${start}`)
    await add(world, 'e1', 'e2', 'e3')
    const claimed = await store.claim(all)
    expect(claimed.map(({ id }) => id)).toEqual([0n, 1n, 2n].map((more) => `${BigInt(start) + more}`))
    const [one, two] = claimed
    if (one === undefined || two === undefined) throw failure
    expect(await store.settle([two].map(({ id, token }) => ({ id, token, result: 'published' })))).toEqual(['applied'])
    expect((await world.query('SELECT id FROM ackord_outbox ORDER BY seq')).map(({ id }) => id)).toEqual(['e1', 'e3'])
    await world.query('DELETE FROM ackord_outbox')
  }
})

describe('cleaning up', () => {
  it('11: does not wait: rows locked by another cleanup are left for the next time', async () => {
    await using world = await openPg()
    await world.query("INSERT INTO ackord_inbox SELECT 'c', '/s', n, clock_timestamp() - interval '8 days' FROM generate_series(1, 3) AS n")
    await world.query(
      `INSERT INTO ackord_outbox (state, destination, id, type, partition, data, attributes, available_at, published_at)
       SELECT 'published', 'events', n, 't', 0, '', '{}', now(), now() - interval '8 days' FROM generate_series(1, 3) AS n`,
    )
    const holder = await world.client()
    await holder.query('BEGIN')
    await holder.query("SELECT 1 FROM ackord_inbox WHERE id = '1' FOR UPDATE")
    await holder.query("SELECT 1 FROM ackord_outbox WHERE id = '1' FOR UPDATE")
    expect([await cleanInbox(world.database), await storeOf(world).deletePublished({ olderThan: 1000, limit: 100 })]).toEqual([2, 2])
    await holder.query('ROLLBACK')
    holder.release()
    expect([await cleanInbox(world.database), await storeOf(world).deletePublished({ olderThan: 1000, limit: 100 })]).toEqual([1, 1])
  })

  it('12: finds old rows with an index', async () => {
    await using world = await openPg({ fresh: true })
    await world.query("INSERT INTO ackord_inbox SELECT 'c', '/s', n, now() - n * interval '1 minute' FROM generate_series(1, 20000) AS n")
    await world.query(
      `INSERT INTO ackord_outbox (state, destination, id, type, partition, data, attributes, available_at, published_at)
       SELECT 'published', 'events', n, 't', 0, '', '{}', now(), now() - n * interval '1 minute' FROM generate_series(1, 20000) AS n`,
    )
    await world.query('ANALYZE ackord_inbox')
    await world.query('ANALYZE ackord_outbox')
    const { pool } = world
    const query = pool.query.bind(pool) as (...given: unknown[]) => unknown
    const sent: [string, unknown[]][] = []
    Object.assign(pool, {
      query(...given: [string, unknown[]]) {
        sent.push(given)
        return query(...given)
      },
    })
    const year = 365 * 24 * 60 * 60 * 1000
    expect([
      await cleanInbox(world.database, { window: year }),
      await storeOf(world).deletePublished({ olderThan: year, limit: 1000 }),
    ]).toEqual([0, 0])
    // Before them, the cleanup asks whether the inbox has partitions.
    const deletions = sent.filter(([sql]) => sql.startsWith('DELETE'))
    expect(deletions).toHaveLength(2)
    for (const [sql, parameters] of deletions) {
      const plan = JSON.stringify(await world.query(`EXPLAIN (FORMAT JSON) ${sql}`, parameters))
      expect(plan).toMatch(/Index Scan/)
      expect(plan).not.toMatch(/Seq Scan/)
    }
  })
})
