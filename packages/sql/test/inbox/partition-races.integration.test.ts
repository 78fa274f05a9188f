import { compose } from '@ackord/core'
import type { PoolClient } from 'pg'
import { describe, expect, it } from 'vitest'
import { cleanInbox, transactional } from '../../src/index.ts'
import { recorder } from '../../src/postgres/inbox.ts'
import { command, failureOf, handle, openPg } from '../support/world.ts'
import { addPartitions, age, generations, switchPartitions, window } from './support/partitions.ts'

type Opened = Awaited<ReturnType<typeof openPartitioned>>

async function openPartitioned({ max = 10 } = {}) {
  const world = await openPg({ fresh: true, max })
  await addPartitions(world)
  return world
}

/** A transaction of one delivery, in steps. */
class Delivery implements AsyncDisposable {
  readonly #client: PoolClient
  #recording = false
  #ended = false

  private constructor(client: PoolClient) {
    this.#client = client
  }

  static async begin(world: Opened, isolation = 'READ COMMITTED'): Promise<Delivery> {
    const client = await world.client()
    await client.query(`BEGIN ISOLATION LEVEL ${isolation}`)
    return new Delivery(client)
  }

  /** The snapshot of a transaction that is not READ COMMITTED is that of its first statement. */
  async takeSnapshot(): Promise<void> {
    await this.#client.query('SELECT count(*) FROM orders')
  }

  /** Resolves to whether the message is new. With the statement of the library. */
  async record(id: string): Promise<boolean> {
    const { sql, parameters = [] } = recorder('ackord_inbox')({ consumer: 'orders', source: '/shop', id })
    this.#recording = true
    try {
      return (await this.#client.query(sql, [...parameters])).rowCount === 1
    } finally {
      this.#recording = false
    }
  }

  async end(how: 'COMMIT' | 'ROLLBACK'): Promise<void> {
    await this.#client.query(how)
    this.#ended = true
    this.#client.release()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (!this.#ended) this.#client.release(true)
  }

  /** Resolves once the server says that this transaction waits for another one. */
  async isWaiting(world: Opened): Promise<void> {
    // A property of pg's clients that its types omit.
    const { processID } = this.#client as PoolClient & { readonly processID: number }
    while (this.#recording) {
      const [row] = await world.query('SELECT cardinality(pg_blocking_pids($1)) AS blockers', [processID])
      if (Number(row?.['blockers']) > 0) return
    }
    throw new Error('The statement has ended without waiting.')
  }
}

/** Whether a delivery of the message in a transaction of its own is new. */
async function deliver(world: Opened, id: string): Promise<boolean> {
  await using delivery = await Delivery.begin(world)
  const isNew = await delivery.record(id)
  await delivery.end('COMMIT')
  return isNew
}

describe.each(['READ COMMITTED', 'REPEATABLE READ'])('a delivery before a switch of partitions, and one after it in %s', (isolation) => {
  it('the second waits for the first, and is a duplicate or loses the conflict if the first commits', async () => {
    await using world = await openPartitioned()
    await using first = await Delivery.begin(world)
    expect(await first.record('1')).toBe(true)
    await switchPartitions(world)
    await using second = await Delivery.begin(world, isolation)
    const recording = second.record('1').catch((error: unknown) => error)
    await second.isWaiting(world)
    await first.end('COMMIT')
    // A snapshot from before the first commit cannot see its row.
    if (isolation === 'READ COMMITTED') expect(await recording).toBe(false)
    else expect(await recording).toMatchObject({ code: '40001' })
    await second.end('ROLLBACK')
    expect(await deliver(world, '1')).toBe(false)
  })

  it('the second is new if the first rolls back', async () => {
    await using world = await openPartitioned()
    await using first = await Delivery.begin(world)
    expect(await first.record('1')).toBe(true)
    await switchPartitions(world)
    await using second = await Delivery.begin(world, isolation)
    const recording = second.record('1')
    await second.isWaiting(world)
    await first.end('ROLLBACK')
    expect(await recording).toBe(true)
    await second.end('COMMIT')
    expect(await deliver(world, '1')).toBe(false)
  })

  it('the second is a duplicate after the partition of the first was sealed', async () => {
    await using world = await openPartitioned()
    expect(await deliver(world, '1')).toBe(true)
    await switchPartitions(world)
    await cleanInbox(world.database, { window })
    expect(await generations(world)).toEqual([2, 1])
    await using second = await Delivery.begin(world, isolation)
    expect(await second.record('1')).toBe(false)
    expect(await second.record('2')).toBe(true)
    await second.end('COMMIT')
  })
})

describe('a snapshot in REPEATABLE READ', () => {
  it('that is older than the first delivery and than the switch does not let a message be handled twice', async () => {
    await using world = await openPartitioned()
    await using second = await Delivery.begin(world, 'REPEATABLE READ')
    await second.takeSnapshot()
    expect(await deliver(world, '1')).toBe(true)
    await switchPartitions(world)
    expect((await failureOf(second.record('1'))).code).toBe('40001')
    await second.end('ROLLBACK')
  })

  it('that is older than the seal does not let a message be handled twice', async () => {
    await using world = await openPartitioned()
    await using first = await Delivery.begin(world)
    expect(await first.record('1')).toBe(true)
    await switchPartitions(world)
    await using second = await Delivery.begin(world, 'REPEATABLE READ')
    await second.takeSnapshot()
    await first.end('COMMIT')
    await cleanInbox(world.database, { window })
    expect(await generations(world)).toEqual([2, 1])
    expect((await failureOf(second.record('1'))).code).toBe('40001')
    await second.end('ROLLBACK')
  })

  it('that is older than two switches loses the conflict, whatever message it handles', async () => {
    await using world = await openPartitioned()
    await using second = await Delivery.begin(world, 'REPEATABLE READ')
    await second.takeSnapshot()
    for (let switches = 0; switches < 2; switches += 1) {
      await age(world, window)
      await cleanInbox(world.database, { window })
    }
    expect(await generations(world)).toEqual([3, 2])
    expect((await failureOf(second.record('2'))).code).toBe('40001')
    await second.end('ROLLBACK')
  })

  it('that is older than the partitions themselves does not let a message be handled twice', async () => {
    await using world = await openPg({ fresh: true })
    await using second = await Delivery.begin(world, 'REPEATABLE READ')
    await second.takeSnapshot()
    expect(await deliver(world, '1')).toBe(true)
    await addPartitions(world)
    expect((await failureOf(second.record('1'))).code).toBe('40001')
    await second.end('ROLLBACK')
  })
})

describe('the cleanup', () => {
  it('does not switch twice while a transaction from before the first switch runs, and does not wait for it', async () => {
    await using world = await openPartitioned()
    await using first = await Delivery.begin(world)
    expect(await first.record('1')).toBe(true)
    for (let rounds = 0; rounds < 4; rounds += 1) {
      await age(world, window)
      await cleanInbox(world.database, { window })
    }
    expect(await generations(world)).toEqual([2, 0])
    expect(await deliver(world, '2')).toBe(true)
    await first.end('COMMIT')
    expect(await deliver(world, '1')).toBe(false)
    for (let rounds = 0; rounds < 2; rounds += 1) {
      await age(world, window)
      await cleanInbox(world.database, { window })
    }
    expect(await generations(world)).toEqual([3, 2])
  })

  it('does not empty a partition that a transaction has read, and does not wait for it', async () => {
    await using world = await openPartitioned()
    expect(await deliver(world, '1')).toBe(true)
    await age(world, window)
    await cleanInbox(world.database, { window })
    // Reads the first two partitions.
    await using reader = await Delivery.begin(world)
    expect(await reader.record('2')).toBe(true)
    const inFirst = async () => (await world.query('SELECT FROM ackord_inbox_1')).length
    await world.query(`SELECT setval('ackord_inbox_current', 4)`)
    await world.query('INSERT INTO ackord_inbox_sealed (generation) VALUES (2), (3)')
    await cleanInbox(world.database, { window })
    expect(await inFirst()).toBe(1)
    expect(await deliver(world, '3')).toBe(true)
    await reader.end('COMMIT')
    expect(await cleanInbox(world.database, { window })).toBe(1)
    expect(await inFirst()).toBe(0)
  })

  it('of several processes at a time switches once, in this round or the next', async () => {
    await using world = await openPartitioned()
    await age(world, window)
    await Promise.all(Array.from({ length: 4 }, () => cleanInbox(world.database, { window })))
    // They give way to each other, so the next round may have to do it.
    await cleanInbox(world.database, { window })
    expect(await generations(world)).toEqual([2, 1])
  })
})

it('a sequence that is behind, in a copy of the tables, lets no message be handled twice, and is corrected by the cleanup', async () => {
  await using world = await openPartitioned()
  expect(await deliver(world, '1')).toBe(true)
  for (let rounds = 0; rounds < 2; rounds += 1) {
    await age(world, window / 2)
    await cleanInbox(world.database, { window })
  }
  await world.query(`SELECT setval('ackord_inbox_current', 1)`)
  expect((await failureOf(deliver(world, '1'))).code).toBe('40001')
  await cleanInbox(world.database, { window })
  expect(await deliver(world, '1')).toBe(false)
  expect(await deliver(world, '2')).toBe(true)
})

it('a row that was routed before a switch and inserted after it is refused, and can be retried', async () => {
  await using world = await openPartitioned()
  await switchPartitions(world)
  const late = world.query(`INSERT INTO ackord_inbox (consumer, source, id, part) VALUES ('orders', '/shop', '1', 1)`)
  expect((await failureOf(late)).code).toBe('40001')
})

it('deadlocks of overlapping groups and connections that are lost during switches let no message be handled twice, and lose none', async () => {
  await using world = await openPartitioned({ max: 12 })
  await world.query('ALTER TABLE orders DROP CONSTRAINT orders_pkey')
  const { database } = world
  const parts = { inbox: { consumer: 'orders' }, outbox: { destination: 'events' } }
  const middlewares = [
    transactional(database, parts),
    transactional(database, { ...parts, transaction: { isolation: 'repeatable read', retries: 10 } }),
    transactional(database, { ...parts, transaction: { isolation: 'serializable', retries: 10 } }),
    transactional(database, { ...parts, groupCommit: { size: 8, groups: 2 } }),
  ].map((each) =>
    compose(each)(async ({ id }) => {
      await database.executor().query('INSERT INTO orders (id) VALUES ($1)', [id])
      return []
    }),
  )

  /** Delivers until the message is acked, as a broker does. */
  async function deliverUntilDone(process: (typeof middlewares)[number], id: string): Promise<void> {
    for (;;) {
      try {
        await handle(
          () => process,
          async () => [],
          command(id).message,
        )
        return
      } catch (error) {
        if (!(error instanceof Error)) throw error
      }
    }
  }

  const rounds = 20
  for (let round = 0; round < rounds; round += 1) {
    const ids = Array.from({ length: 10 }, (_, n) => `${round}.${n}`)
    await age(world, window)
    const deliveries = middlewares.flatMap((process) => ids.map((id) => deliverUntilDone(process, id)))
    const killing = world.query(
      `SELECT pg_terminate_backend(pid) FROM (SELECT pid FROM pg_stat_activity WHERE application_name = $1 AND xact_start IS NOT NULL LIMIT 2) AS busy`,
      [world.schema],
    )
    const cleaning = cleanInbox(database, { window }).catch(() => 0)
    await Promise.all([...deliveries, killing, cleaning])
    // Every message is remembered across the switch of its own round.
    await Promise.all(ids.map(async (id) => expect(await deliver(world, id)).toBe(false)))
  }
  expect((await generations(world))[0]).toBeGreaterThan(rounds / 2)
  const twice = await world.query('SELECT id FROM orders GROUP BY id HAVING count(*) > 1')
  expect([await world.orders(), twice]).toEqual([rounds * 10, []])
})
