import {
  commandHandler,
  defineEvent,
  isAckordError,
  jsonMarshaler,
  MemoryBroker,
  marshal,
  type Publisher,
  publishAll,
  Router,
  silentLogger,
} from '@ackord/core'
import { Relay } from '@ackord/outbox'
import { createSchema, type OutboxMode, sqlInbox, sqlOutbox, transactional } from '@ackord/sql'
import { fromPg } from '@ackord/sql/postgres'
import { deferred } from '@ackord/testkit'
import pg from 'pg'
import { afterAll, describe, expect, it } from 'vitest'
import { startPostgres, startPostgresStandby } from '../../../scripts/servers/index.mjs'
import { waitUntil } from '../../../scripts/servers/wait-until.mjs'
import { isProof } from '../../../scripts/test-depth.mjs'
import { startSwitchedProxy } from './switched-proxy.ts'

const placeOrder = defineEvent<{ id: string }>('order.place')
const orderPlaced = defineEvent<{ id: string }>('order.placed')
const total = isProof ? 4000 : 800
const concurrency = 8

interface Replication {
  /** `synchronous_commit` while the standby is in `synchronous_standby_names`. `undefined`: the replication is asynchronous. */
  readonly synchronous: 'on' | 'remote_apply' | undefined
  /** Milliseconds between the servers, in each direction. */
  readonly delay: number
  /** Of the outbox. Default: `table`. */
  readonly mode?: OutboxMode
}

interface Loss {
  /** Messages that were acked, and whose rows are not in the promoted server. */
  readonly lost: number
  /** Orders that were applied twice. */
  readonly twice: number
  /** Orders in the promoted server whose event was not published. */
  readonly unpublished: number
  /** Events whose order is not in the promoted server. */
  readonly phantoms: number
  /** Publishes beyond the first of an event. */
  readonly duplicates: number
  /** Orders per second before the failover. */
  readonly rate: number
  /** Milliseconds from the end of the primary to the first order that the promoted server has accepted. */
  readonly outage: number
}

const results = new Map<string, Loss>()

/** A service and a relay on a primary, which is cut off and killed in the middle of the work, while its standby is promoted. */
async function failOver({ synchronous, delay, mode = 'table' }: Replication): Promise<Loss> {
  await using primary = await startPostgres()
  await using link = await startSwitchedProxy(primary.port, { delay })
  await using standby = await startPostgresStandby(link.port)
  await using address = await startSwitchedProxy(primary.port)
  await replicate(primary.url, synchronous)

  const pool = new pg.Pool({ connectionString: `postgres://postgres@127.0.0.1:${address.port}/test`, max: concurrency + 2 })
  pool.on('error', () => {})
  const database = fromPg(pool, { mode, logger: silentLogger })
  await createSchema(database)
  // No primary key, so that an order that is applied twice leaves two rows.
  await pool.query('CREATE TABLE orders (id text)')

  const broker = new MemoryBroker()
  const half = deferred()
  let handled = 0
  let switched = false
  let backAt = 0
  const router = new Router({ concurrency, logger: silentLogger, redeliveryDelay: () => 100 })
    .use(transactional(database, { inbox: { consumer: 'orders' }, outbox: { destination: 'order-events' } }))
    .handle(
      commandHandler({ type: placeOrder, source: '/orders' }, async ({ id }) => {
        await database.executor().query('INSERT INTO orders VALUES ($1)', [id])
        handled += 1
        if (handled === total / 2) half.resolve()
        if (switched && backAt === 0) backAt = performance.now()
        return [orderPlaced({ id })]
      }),
    )
  const sent = new Map<string, number>()
  const publisher: Publisher = {
    async publish(_, messages) {
      for (const { data } of messages) {
        const { id } = JSON.parse(new TextDecoder().decode(data)) as { readonly id: string }
        sent.set(id, (sent.get(id) ?? 0) + 1)
      }
      return messages.map(() => ({ ok: true }))
    },
  }
  const options = { publisher, logger: silentLogger, pollInterval: 100, lease: 5000, publishTimeout: 4000 }
  const outbox = sqlOutbox(database, { logger: silentLogger })
  await using relay = new Relay(outbox, options).start()
  const running = router.run(broker.source('orders', { deadLetter: 'orders.dead' }))
  const commands = Array.from({ length: total }, (_, index) =>
    marshal(placeOrder({ id: `o-${index}` }, { id: `m-${index}`, source: '/shop' }), jsonMarshaler),
  )
  await publishAll(broker, 'orders', commands)
  const startedAt = performance.now()

  await half.promise
  const rate = Math.round(total / 2 / ((performance.now() - startedAt) / 1000))
  // As when the machine is lost: at one moment, neither clients nor the standby receive anything more.
  link.switchTo(undefined)
  address.switchTo(undefined)
  const killedAt = performance.now()
  await primary.kill('SIGKILL')
  await promote(standby.url)
  address.switchTo(standby.port)
  switched = true

  await broker.idle('orders')
  const isEmpty = async () => (await outbox.stats()).oldestAge === undefined
  await waitUntil('an empty outbox', isEmpty, { timeout: 60_000 })
  await relay.stop()
  await router.stop()
  await running
  const { rows } = await pool.query<{ id: string }>('SELECT id FROM orders')
  await pool.end()
  const orders = new Set(rows.map(({ id }) => id))
  const publishes = [...sent.values()].reduce((sum, times) => sum + times, 0)
  return {
    lost: total - orders.size,
    twice: rows.length - orders.size,
    unpublished: [...orders].filter((id) => !sent.has(id)).length,
    phantoms: [...sent.keys()].filter((id) => !orders.has(id)).length,
    duplicates: publishes - sent.size,
    rate,
    outage: Math.round(backAt - killedAt),
  }
}

async function replicate(primary: string, synchronous: Replication['synchronous']): Promise<void> {
  await using client = await connected(primary)
  const streams = async (state: string) =>
    (await client.query('SELECT FROM pg_stat_replication WHERE sync_state = $1', [state])).rowCount === 1
  await waitUntil('replication', () => streams('async'))
  if (synchronous === undefined) return
  await client.query(`ALTER SYSTEM SET synchronous_standby_names = '*'`)
  await client.query(`ALTER SYSTEM SET synchronous_commit = '${synchronous}'`)
  await client.query('SELECT pg_reload_conf()')
  await waitUntil('synchronous replication', () => streams('sync'))
}

async function promote(standby: string): Promise<void> {
  await using client = await connected(standby)
  const { rows } = await client.query<{ promoted: boolean }>('SELECT pg_promote() AS promoted')
  expect(rows).toEqual([{ promoted: true }])
}

async function connected(connectionString: string): Promise<pg.Client & AsyncDisposable> {
  const client = new pg.Client({ connectionString })
  await client.connect()
  return Object.assign(client, { [Symbol.asyncDispose]: () => client.end() })
}

describe('a standby that is promoted in the middle of the work', () => {
  const nothing = { lost: 0, twice: 0, unpublished: 0, phantoms: 0 }

  it('has every acked message, if the replication is synchronous', { timeout: 120_000 }, async () => {
    const loss = await failOver({ synchronous: 'on', delay: 10 })
    results.set('synchronous, 10 ms away', loss)
    expect(loss).toMatchObject(nothing)
  })

  if (isProof) {
    it('has every acked message, if the primary waits until it is visible on the standby', async () => {
      const loss = await failOver({ synchronous: 'remote_apply', delay: 10 })
      results.set('remote_apply, 10 ms away', loss)
      expect(loss).toMatchObject(nothing)
    })

    // What is not on the standby is lost. Nothing else: no order is applied twice, and every order that is there is published.
    it.each([0, 10, 100])('lacks what it had not received, if the replication is asynchronous and %i ms behind', async (delay) => {
      const loss = await failOver({ synchronous: undefined, delay })
      results.set(`asynchronous, ${delay} ms away`, loss)
      expect(loss).toMatchObject({ twice: 0, unpublished: 0 })
      if (delay >= 100) expect(loss.lost).toBeGreaterThan(0)
    })

    // The relay outlives the failover, and has seen the end of transactions that the new primary does not have.
    it.each([
      { synchronous: 'on', delay: 10 },
      { synchronous: undefined, delay: 0 },
      { synchronous: undefined, delay: 100 },
    ] as const)('publishes every order that it has, in log mode, with %j', async ({ synchronous, delay }) => {
      const loss = await failOver({ synchronous, delay, mode: 'log' })
      results.set(`log mode, ${synchronous ?? 'asynchronous'}, ${delay} ms away`, loss)
      expect(loss).toMatchObject(synchronous === undefined ? { twice: 0, unpublished: 0 } : nothing)
    })
  }

  afterAll(() => {
    if (isProof) console.table(Object.fromEntries(results))
  })
})

describe('a standby that is not promoted', () => {
  it('can be read, and rejects the inbox and the relay with the error of PostgreSQL', { timeout: 120_000 }, async () => {
    await using primary = await startPostgres()
    const writer = new pg.Pool({ connectionString: primary.url, max: 2 })
    const source = fromPg(writer, { logger: silentLogger })
    await createSchema(source)
    await using standby = await startPostgresStandby(primary.port)
    const pool = new pg.Pool({ connectionString: standby.url, max: 4 })
    const replica = fromPg(pool, { logger: silentLogger })
    const message = marshal(orderPlaced({ id: 'o-1' }, { id: 'e-1', source: '/orders' }), jsonMarshaler)
    await source.write((transaction) =>
      sqlOutbox(source, { logger: silentLogger }).append(transaction, [{ destination: 'orders', message }]),
    )
    const outbox = sqlOutbox(replica, { logger: silentLogger })
    await waitUntil('the record on the standby', async () => (await outbox.list({}, { limit: 10 })).records.length === 1)
    expect((await outbox.stats()).destinations).toMatchObject([{ destination: 'orders', ready: 1 }])
    expect(await sqlInbox(replica, { logger: silentLogger }).find('m-1')).toEqual([])

    const publisher: Publisher = { publish: async (_, messages) => messages.map(() => ({ ok: true })) }
    const down = deferred<unknown>()
    await using relay = new Relay(outbox, {
      publisher,
      logger: silentLogger,
      onEvent: (event) => event.type === 'storeDown' && down.resolve(event.error),
    }).start()
    expect(rootOf(await down.promise)).toMatchObject({ code: '25006', message: expect.stringContaining('read-only transaction') })
    expect(relay.health()).toMatchObject({ store: 'down', published: 0 })
    await relay.stop()

    const failed = await replica
      .write((transaction) => outbox.append(transaction, [{ destination: 'orders', message }]))
      .catch((error: unknown) => error)
    expect(rootOf(failed)).toMatchObject({ code: '25006' })
    expect(isAckordError(failed)).toBe(true)
    await Promise.all([writer.end(), pool.end()])
  })
})

function rootOf(error: unknown): unknown {
  let root = error
  while (root instanceof Error && root.cause !== undefined) root = root.cause
  return root
}
