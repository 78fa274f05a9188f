import { Message, silentLogger } from '@ackord/core'
import type { ClaimedRecord, NewOutboxRecord } from '@ackord/outbox'
import type { Pool } from 'mysql2/promise'
import { describe, expect, it, vi } from 'vitest'
import { type SqlOutbox, sqlOutbox, transactionMiddleware } from '../../src/index.ts'
import { event, failureOf, handle } from '../support/world.ts'
import { checkViolated, isMariadb } from './support/flavour.ts'
import { type MysqlHandle, type MysqlKind, type MysqlWorld, mysqlKinds, type OpenOptions, openMysql2 } from './support/mysql-world.ts'

const failure = new Error('failed')
const all = { limit: 100, lease: 60_000 }

function record(id: string, options: Partial<NewOutboxRecord> & { readonly attributes?: Record<string, string> } = {}): NewOutboxRecord {
  const { destination = 'events', attributes = {}, message, delay } = options
  return { destination, message: message ?? new Message(new TextEncoder().encode(id), event(id, attributes).attributes), delay }
}

function bytes(id: string, size: number): NewOutboxRecord {
  const data = new Uint8Array(size).map((_, index) => (index * 7) % 256)
  return record(id, { message: new Message(data, event(id).attributes) })
}

async function openStore(kind: MysqlKind, options: OpenOptions & { readonly retain?: boolean; readonly maxSize?: number } = {}) {
  const world = await kind.open(options)
  const store = sqlOutbox(world.database, { logger: silentLogger, retain: options.retain, maxSize: options.maxSize ?? 20 * 1024 * 1024 })
  return {
    ...world,
    store,
    add: (...records: NewOutboxRecord[]) => add(world, store, records),
    [Symbol.asyncDispose]: () => world[Symbol.asyncDispose](),
  }
}

async function add({ database }: MysqlWorld, store: SqlOutbox<MysqlHandle>, records: readonly NewOutboxRecord[]): Promise<void> {
  await handle(transactionMiddleware(database), async () => {
    await store.append(database.executor(), records)
    return []
  })
}

function idsOf(records: readonly ClaimedRecord[]): (string | undefined)[] {
  return records.map(({ message }) => message.id)
}

function published(records: readonly ClaimedRecord[]) {
  return records.map(({ id, token }) => ({ id, token, result: 'published' as const }))
}

describe.each(mysqlKinds)('append() on $name', (kind) => {
  it('rejects the pool, a client that is not in a transaction, and a transaction that has ended', async () => {
    await using world = await openStore(kind)
    const { database, store } = world
    let ended: MysqlHandle | undefined
    await handle(transactionMiddleware(database), async () => {
      ended = database.executor()
      return []
    })
    const refused = (transaction: unknown) => failureOf(store.append(transaction as MysqlHandle, [record('1')]))
    expect(await refused(database.executor())).toMatchObject({ code: 'ACKORD_TRANSACTION_REQUIRED' })
    expect(await refused(undefined)).toMatchObject({ code: 'ACKORD_TRANSACTION_REQUIRED' })
    expect(await refused(ended)).toMatchObject({ code: 'ACKORD_SCOPE_ENDED' })
    const client = await world.connect()
    expect(await refused(client)).toMatchObject({
      code: 'ACKORD_TRANSACTION_REQUIRED',
      message: expect.stringContaining('is not in a transaction'),
    })
    // A client that was in a transaction until DDL ended it.
    await client.query('START TRANSACTION')
    await client.query('CREATE TABLE more (n INT)')
    expect(await refused(client)).toMatchObject({ code: 'ACKORD_TRANSACTION_REQUIRED' })
    await client.release()
    expect(await world.outbox()).toBe(0)
  })

  it('stores records in a transaction of the caller, with it or not at all, even 10 MB', async () => {
    await using world = await openStore(kind)
    const { store } = world
    const client = await world.connect()
    for (const begin of ['START TRANSACTION', 'SET autocommit = 0']) {
      await client.query(begin)
      await store.append(client, [record('lost')])
      await client.query('ROLLBACK')
      if (begin === 'START TRANSACTION') await client.query(begin)
      await store.append(client, [record('kept'), bytes('large', 10 * 1024 * 1024)])
      await client.query('COMMIT')
    }
    await client.query('SET autocommit = 1')
    await client.release()
    const claimed = await store.claim(all)
    expect(idsOf(claimed)).toEqual(['kept', 'large', 'kept', 'large'])
    expect(claimed[1]?.message.data.byteLength).toBe(10 * 1024 * 1024)
  })

  it('stores bytes unchanged: empty, binary, 10 MB', async () => {
    await using world = await openStore(kind)
    const records = [bytes('0', 0), bytes('1', 256), bytes('2', 10 * 1024 * 1024), bytes('3', 70_000), bytes('4', 3)]
    await world.add(...records)
    const claimed = await world.store.claim(all)
    expect(idsOf(claimed)).toEqual(['0', '1', '2', '3', '4'])
    for (const [index, { message }] of records.entries()) {
      expect(Buffer.compare(claimed[index]?.message.data ?? new Uint8Array(1), message.data)).toBe(0)
    }
    expect(await world.store.settle(published(claimed))).toEqual(Array(5).fill('applied'))
  })

  it('reports that an event exceeds the limit of the server, and stores nothing', async () => {
    await using world = await openStore(kind, { maxSize: 100 * 1024 * 1024 })
    const { database, store } = world
    const [row] = await world.query('SELECT @@max_allowed_packet AS size')
    const size = Number(row?.['size']) + 1024 * 1024
    const tooLarge = handle(transactionMiddleware(database), async () => {
      await world.run("INSERT INTO orders (id) VALUES ('1')")
      await store.append(database.executor(), [record('small'), bytes('large', size)]).catch(async (error: unknown) => {
        // The handler swallows the error.
        expect(error).toMatchObject({ message: expect.stringMatching(/max_allowed_packet/) })
      })
      return []
    })
    expect(await failureOf(tooLarge)).toMatchObject({
      code: 'ACKORD_TRANSACTION_ABORTED',
      cause: { message: expect.stringMatching(/max_allowed_packet/) },
    })
    expect([await world.orders(), await world.outbox()]).toEqual([0, 0])
    await world.add(record('next'))
    expect(await world.outbox()).toBe(1)
  })

  it('stores all or none, even if a handler continues after it failed halfway', async () => {
    await using world = await openStore(kind)
    const { database, store } = world
    await world.query("ALTER TABLE ackord_outbox ADD CONSTRAINT no CHECK (id <> 'last')")
    // The records take three statements, of which the second fails.
    const records = [bytes('a', 2_000_000), record('last'), bytes('b', 2_000_000)]
    const going = handle(transactionMiddleware(database), async () => {
      await failureOf(store.append(database.executor(), records))
      return []
    })
    expect(await failureOf(going)).toMatchObject({ code: 'ACKORD_TRANSACTION_ABORTED' })
    expect(await world.outbox()).toBe(0)
  })

  it('stores nothing when its last statement fails, and reports it at the end of the transaction', async () => {
    await using world = await openStore(kind, { max: 1 })
    const { database, store } = world
    await world.query("ALTER TABLE ackord_outbox ADD CONSTRAINT no CHECK (id <> 'last')")
    const failing = handle(transactionMiddleware(database), async () => {
      await world.run("INSERT INTO orders (id) VALUES ('1')")
      await store.append(database.executor(), [record('last')])
      return []
    })
    // It is sent with COMMIT, which the server does not reach. Because that is known, the outcome is known.
    expect(await failureOf(failing)).toMatchObject({ errno: checkViolated })
    expect([await world.orders(), await world.outbox()]).toEqual([0, 0])
    await world.add(record('next'))
    expect(await world.outbox()).toBe(1)
  })

  it('stores an event before the handler’s next statement, or not at all', async () => {
    await using world = await openStore(kind)
    const { database, store } = world
    await world.query("ALTER TABLE ackord_outbox ADD CONSTRAINT no CHECK (id <> 'last')")
    const counting = "SELECT COUNT(*) AS found FROM ackord_outbox WHERE id = 'first'"
    const failing = handle(transactionMiddleware(database), async () => {
      await store.append(database.executor(), [record('first')])
      expect(Number((await world.run(counting))[0]?.['found'])).toBe(1)
      const appending = store.append(database.executor(), [record('last')])
      // MySQL stores the event immediately. MariaDB stores it with the next statement, which then fails with this error, caught or not.
      const failing = isMariadb ? appending.then(() => world.run(counting)) : appending
      expect(await failureOf(failing)).toMatchObject({ errno: checkViolated })
      return []
    })
    expect(await failureOf(failing)).toMatchObject({ code: 'ACKORD_TRANSACTION_ABORTED' })
    expect(await world.outbox()).toBe(0)
  })

  it('returns attributes and destination unchanged, whatever the character set of the connection', async () => {
    await using world = await openStore(kind, { pool: { charset: 'latin1' } })
    const attributes = { ...event('1').attributes, count: 7, flag: true, big: '9007199254740993', partitionkey: 'ключ "1" 😀' }
    await world.add({ destination: 'orders/“new”', message: new Message(new Uint8Array(), attributes) })
    const [claimed] = await world.store.claim(all)
    // A18, A33
    expect(claimed).toMatchObject({ destination: 'orders/“new”', attempts: 1 })
    expect(claimed?.message.attributes).toEqual(attributes)
    if (claimed === undefined) throw failure
    await world.store.settle([{ id: claimed.id, token: claimed.token, result: 'failed', error: 'нет 😀', retryAfter: 0 }])
    expect(await world.store.get(claimed.id)).toMatchObject({ lastError: 'нет 😀', destination: 'orders/“new”' })
    expect(await world.store.list({ destination: 'orders/“new”', type: 'order.placed' }, { limit: 1 })).toMatchObject({
      records: [{ id: claimed.id }],
    })
  })

  it('stores thousands of records at once, in order', async () => {
    await using world = await openStore(kind)
    const records = Array.from({ length: 5100 }, (_, index) => record(`${index}`))
    await world.add(...records)
    const claimed = await world.store.claim({ limit: 6000, lease: 60_000 })
    expect(idsOf(claimed)).toEqual(records.map(({ message }) => message.id))
    expect(new Set(await world.store.settle(published(claimed)))).toEqual(new Set(['applied']))
    expect(await world.outbox()).toBe(0)
  })
})

describe.each(mysqlKinds)('claims on $name', (kind) => {
  it('use the database’s clock: neither the clock of the process nor a time zone matters', async () => {
    await using world = await openStore(kind, { max: 1 })
    const { store } = world
    await world.run("SET time_zone = '+13:00'")
    for (const offset of [-86_400_000, 86_400_000]) {
      vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + offset })
      try {
        await world.add(record('now'), record('later', { delay: 3_600_000 }))
        const [claimed, ...more] = await store.claim(all)
        expect([claimed?.message.id, more]).toEqual(['now', []])
        expect(await store.claim(all)).toEqual([])
        if (claimed === undefined) throw failure
        const truly = Date.now() - offset
        expect(Math.abs(claimed.createdAt - truly)).toBeLessThan(600_000)
        expect(await store.renew([claimed], 60_000)).toEqual([true])
        expect(Math.abs(Number((await store.get(claimed.id))?.leasedUntil) - truly - 60_000)).toBeLessThan(600_000)
        expect(await store.settle(published([claimed]))).toEqual(['applied'])
        expect((await store.stats()).oldestAge).toBeLessThan(600_000)
      } finally {
        vi.useRealTimers()
      }
    }
  })

  it('include a fair share of each of many destinations, and redistribute unused shares', async () => {
    await using world = await openStore(kind)
    const { store } = world
    const destinations = Array.from({ length: 120 }, (_, index) => `d${index}`)
    await world.add(...destinations.flatMap((destination) => [record('1', { destination }), record('2', { destination })]))
    await world.add(...Array.from({ length: 300 }, (_, index) => record(`${index}`, { destination: 'busy' })))
    const claimed = await store.claim({ limit: 400, lease: 60_000 })
    expect(claimed).toHaveLength(400)
    expect(new Set(claimed.map(({ destination }) => destination)).size).toBe(121)
    // Even with a small limit, no destination is skipped forever.
    const seen = new Set<string>()
    await store.release(claimed)
    for (let round = 0; round < 40; round += 1) {
      const few = await store.claim({ limit: 10, lease: 60_000 })
      for (const { destination } of few) seen.add(destination)
    }
    expect(seen.size).toBeGreaterThan(60)
  })

  it('use at most half of the limit for due retries while there are new records, and all of it otherwise', async () => {
    await using world = await openStore(kind)
    const { store } = world
    await world.add(...Array.from({ length: 20 }, (_, index) => record(`r${index}`)))
    const retried = await store.claim(all)
    await store.settle(retried.map(({ id, token }) => ({ id, token, result: 'failed', error: 'x', retryAfter: 0 })))
    await world.add(...Array.from({ length: 5 }, (_, index) => record(`n${index}`)))
    const claimed = await store.claim({ limit: 10, lease: 60_000 })
    expect(idsOf(claimed).filter((id) => id?.startsWith('n'))).toHaveLength(5)
    expect(claimed).toHaveLength(10)
    expect(await store.claim({ limit: 15, lease: 60_000 })).toHaveLength(15)
  })

  it('neither wait for nor block writers and other claims', async () => {
    await using world = await openStore(kind)
    const { store } = world
    await world.add(record('1'), record('2'), record('3'))
    const writer = await world.connect()
    await writer.query('START TRANSACTION')
    await store.append(writer, [record('4')])
    const claimer = await world.connect()
    await claimer.query('SET TRANSACTION ISOLATION LEVEL READ COMMITTED')
    await claimer.query('START TRANSACTION')
    await claimer.query(
      "SELECT seq FROM ackord_outbox FORCE INDEX (PRIMARY) WHERE state = 'ready' AND destination = 'events' ORDER BY seq LIMIT 1 FOR UPDATE SKIP LOCKED",
    )
    expect(idsOf(await store.claim(all))).toEqual(['2', '3'])
    await world.add(record('5'))
    await claimer.query('ROLLBACK')
    await writer.query('COMMIT')
    await claimer.release()
    await writer.release()
    expect(idsOf(await store.claim(all))).toEqual(['1', '4', '5'])
  })

  it('are lost when their lease has expired, even if no other relay has claimed the record', async () => {
    await using world = await openStore(kind)
    const { store } = world
    await world.add(record('1'))
    const claimed = await store.claim(all)
    await world.query('UPDATE ackord_outbox SET lease_until = lease_until - INTERVAL 61 SECOND')
    expect(await store.renew(claimed, 60_000)).toEqual([false])
    expect(await store.settle(published(claimed))).toEqual(['lost'])
    await store.release(claimed)
    expect(await store.claim(all)).toMatchObject([{ attempts: 2 }])
  })

  it('report an invalid token as lost', async () => {
    await using world = await openStore(kind)
    const nonsense = [
      { id: '1', token: 'nonsense' },
      { id: '1', token: "00000000-0000-4000-8000-000000000001/ready/events' OR 1=1 --" },
    ]
    await world.add(record('1'))
    expect(await world.store.renew(nonsense, 1000)).toEqual([false, false])
    expect(await world.store.settle(nonsense.map((claim) => ({ ...claim, result: 'published' })))).toEqual(['lost', 'lost'])
    await world.store.release(nonsense)
    expect(await world.outbox()).toBe(1)
  })

  it('work with many concurrent relays: every record is settled once', async () => {
    await using world = await openStore(kind)
    const { store } = world
    await world.add(...Array.from({ length: 400 }, (_, index) => record(`${index}`, { destination: `d${index % 3}` })))
    const settled: string[] = []
    const relay = async () => {
      for (;;) {
        const claimed = await store.claim({ limit: 20, lease: 60_000 })
        if (claimed.length === 0 && (await world.outbox()) === 0) return
        const [failing, ...rest] = claimed
        const answers = await store.settle([
          ...published(rest),
          ...(failing === undefined
            ? []
            : [{ id: failing.id, token: failing.token, result: 'failed' as const, error: 'x', retryAfter: 0 }]),
        ])
        expect(new Set([...answers, 'applied'])).toEqual(new Set(['applied']))
        settled.push(...rest.map(({ id }) => id))
        if (failing !== undefined && rest.length === 0) {
          const [last] = await store.claim({ limit: 1, lease: 60_000 })
          if (last !== undefined) settled.push(...(await store.settle(published([last]))).map(() => last.id))
        }
      }
    }
    await Promise.all(Array.from({ length: 6 }, relay))
    expect([settled.length, new Set(settled).size]).toEqual([400, 400])
  })
})

it('counts round trips: six for a claim, five to settle it, one to renew, one to find nothing', async () => {
  await using world = await openMysql2({ max: 1 })
  const store = sqlOutbox(world.database, { logger: silentLogger })
  await add(world, store, [record('1'), record('2')])
  const statements = async (work: () => Promise<unknown>) => {
    const count = async () => Number((await world.run("SHOW SESSION STATUS LIKE 'Questions'"))[0]?.['Value'])
    const before = await count()
    await work()
    return (await count()) - before - 1
  }
  // A new destination takes one more statement.
  let claimed: readonly ClaimedRecord[] = await store.claim({ limit: 2, lease: 60_000 })
  await store.release(claimed)
  const sent = await sentBy(world)
  expect(
    await statements(async () => {
      claimed = await store.claim({ limit: 2, lease: 60_000 })
    }),
  ).toBe(6)
  // The default isolation level would lock gaps and block inserts.
  expect(sent.slice(0, 2)).toEqual(['SET TRANSACTION ISOLATION LEVEL READ COMMITTED', 'START TRANSACTION'])
  expect([sent[2], sent[3], sent[4]]).toEqual([
    expect.stringMatching(/SKIP LOCKED$/),
    expect.stringMatching(/^UPDATE/),
    'COMMIT AND NO CHAIN NO RELEASE',
  ])
  expect(await statements(() => store.renew(claimed, 60_000))).toBe(1)
  expect(await statements(() => store.settle(published(claimed)))).toBe(5)
  expect(await statements(() => store.claim(all))).toBe(1)
})

/** Records the statements sent from now on by connections that are taken from the pool. */
async function sentBy({ pool }: { readonly pool: Pool }): Promise<readonly string[]> {
  const sent: string[] = []
  const getConnection = pool.getConnection.bind(pool)
  Object.assign(pool, {
    async getConnection() {
      const connection = await getConnection()
      const { connection: below } = connection as unknown as {
        connection: { query: (...given: [{ readonly sql: string }, unknown]) => unknown }
      }
      const query = Object.getPrototypeOf(below).query.bind(below) as typeof below.query
      below.query = (statement, callback) => {
        sent.push(statement.sql)
        return query(statement, callback)
      }
      return connection
    },
  })
  return sent
}
