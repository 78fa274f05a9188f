import { compose, Message, silentLogger } from '@ackord/core'
import type { ClaimedRecord, NewOutboxRecord, OutboxFilter } from '@ackord/outbox'
import { describe, expect, it } from 'vitest'
import { outboxMiddleware, type SqlOutbox, type SqlOutboxOptions, sqlOutbox, transactionMiddleware } from '../../src/index.ts'
import { event, failureOf, handle, type TestHandle, type World, type WorldKind, worldKinds } from '../support/world.ts'

const failure = new Error('failed')

function record(id: string, options: Partial<NewOutboxRecord> & { readonly attributes?: Record<string, string> } = {}): NewOutboxRecord {
  const { destination = 'events', attributes = {}, message, delay } = options
  const data = new TextEncoder().encode(id)
  return { destination, message: message ?? new Message(data, event(id, attributes).attributes), delay }
}

interface StoreWorld extends World {
  readonly store: SqlOutbox<TestHandle>
  /** Appends records and commits. */
  add(...records: readonly NewOutboxRecord[]): Promise<void>
  /** Makes all leases expire. */
  expireLeases(): Promise<void>
  elapse(milliseconds: number): Promise<void>
}

async function openStore(kind: WorldKind, options: SqlOutboxOptions = {}): Promise<StoreWorld> {
  const world = await kind.open()
  const { database } = world
  const store = sqlOutbox(database, { logger: silentLogger, maxSize: 20 * 1024 * 1024, ...options })
  return {
    ...world,
    [Symbol.asyncDispose]: () => world[Symbol.asyncDispose](),
    store,
    async add(...records) {
      await handle(transactionMiddleware(database), async () => {
        await store.append(database.executor(), records)
        return []
      })
    },
    async expireLeases() {
      await world.query("UPDATE ackord_outbox SET lease_until = clock_timestamp() - interval '1 second' WHERE lease_token IS NOT NULL")
    },
    async elapse(milliseconds) {
      await world.query("UPDATE ackord_outbox SET available_at = available_at - $1::float8 * interval '1 millisecond'", [milliseconds])
    },
  }
}

function idsOf(records: readonly ClaimedRecord[]): (string | undefined)[] {
  return records.map(({ message }) => message.id)
}

function published(records: readonly ClaimedRecord[]) {
  return records.map(({ id, token }) => ({ id, token, result: 'published' as const }))
}

const all = { limit: 100, lease: 60_000 }

describe.each(worldKinds)('append() on $name', (kind) => {
  it('stores with the transaction, or not at all', async () => {
    await using world = await openStore(kind)
    const { database, store } = world
    await failureOf(
      handle(transactionMiddleware(database), async () => {
        await store.append(database.executor(), [record('lost')])
        throw failure
      }),
    )
    expect(await store.claim(all)).toEqual([])
    await world.add(record('kept'))
    expect(idsOf(await store.claim(all))).toEqual(['kept'])
  })

  it('drops records appended in a savepoint that is rolled back', async () => {
    await using world = await openStore(kind)
    const { database, store } = world
    const transaction = transactionMiddleware(database)
    await handle(transaction, async (message, context) => {
      await store.append(database.executor(), [record('outer')])
      const inner = transaction(async () => {
        await store.append(database.executor(), [record('inner')])
        throw failure
      })
      await failureOf(inner(message, context))
      return []
    })
    expect(idsOf(await store.claim(all))).toEqual(['outer'])
  })

  it('rejects the pool, a client outside a transaction, and a transaction that has ended', async () => {
    await using world = await openStore(kind)
    const { database, store } = world
    let ended: TestHandle | undefined
    await handle(transactionMiddleware(database), async () => {
      ended = database.executor()
      return []
    })
    const refused = (transaction: unknown) => failureOf(store.append(transaction as TestHandle, [record('1')]))
    expect(await refused(database.executor())).toMatchObject({ code: 'ACKORD_TRANSACTION_REQUIRED' })
    expect(await refused(undefined)).toMatchObject({ code: 'ACKORD_TRANSACTION_REQUIRED' })
    expect(await refused(ended)).toMatchObject({ code: 'ACKORD_SCOPE_ENDED' })
    // Only the server knows that this client is not in a transaction.
    const client = { query: (text: string, parameters: unknown[]) => database.executor().query(text, parameters) }
    expect(await refused(client)).toMatchObject({
      code: 'ACKORD_TRANSACTION_REQUIRED',
      message: expect.stringContaining('is not in a transaction'),
    })
    expect(await world.outbox()).toBe(0)
  })

  it('stores bytes unchanged: empty, binary, 10 MB', async () => {
    await using world = await openStore(kind)
    const large = new Uint8Array(10 * 1024 * 1024).map((_, index) => (index * 7) % 256)
    const payloads = [new Uint8Array(), Uint8Array.from({ length: 256 }, (_, index) => index), Buffer.from('{"a": 1, "a": 2}'), large]
    await world.add(...payloads.map((data, index) => record(`${index}`, { message: new Message(data, event(`${index}`).attributes) })))
    const claimed = await world.store.claim(all)
    expect(claimed.map(({ message }) => message.data.byteLength)).toEqual(payloads.map(({ byteLength }) => byteLength))
    for (const [index, data] of payloads.entries()) expect(Buffer.compare(claimed[index]?.message.data ?? new Uint8Array(1), data)).toBe(0)
    expect(await world.store.settle(published(claimed))).toEqual(Array(4).fill('applied'))
  })

  it('returns attributes and destination unchanged', async () => {
    await using world = await openStore(kind)
    const attributes = {
      ...event('1').attributes,
      time: new Date(0),
      count: 7,
      flag: true,
      bytes: new Uint8Array([1, 2]),
      big: '9007199254740993',
      partitionkey: 'ключ "1"',
    }
    await world.add({ destination: 'orders/“new”', message: new Message(new Uint8Array(), attributes) })
    const [claimed] = await world.store.claim(all)
    // A18, A33
    expect(claimed).toMatchObject({ destination: 'orders/“new”', attempts: 1 })
    expect(claimed?.message.attributes).toEqual({ ...attributes, time: '1970-01-01T00:00:00.000Z', bytes: 'AQI=' })
    const [row] = await world.query('SELECT partition, ordering_key FROM ackord_outbox')
    expect(row).toEqual({ partition: expect.any(Number), ordering_key: 'ключ "1"' })
  })

  it('rejects data that cannot be marshalled, and stores nothing of a batch with one invalid record', async () => {
    await using world = await openStore(kind)
    const bad = { destination: 'events', message: new Message(1n, event('2').attributes) as unknown as NewOutboxRecord['message'] }
    expect(await failureOf(world.add(record('1'), bad))).toMatchObject({ code: 'ACKORD_MARSHAL_FAILED' })
    expect(await world.outbox()).toBe(0)
  })

  it('stores thousands of records at once, in order', async () => {
    await using world = await openStore(kind)
    const records = Array.from({ length: 5100 }, (_, index) => record(`${index}`))
    await world.add(...records)
    const claimed = await world.store.claim({ limit: 6000, lease: 60_000 })
    expect(idsOf(claimed)).toEqual(records.map(({ message }) => message.id))
  })
})

describe.each(worldKinds)('claim() on $name', (kind) => {
  it('gives two claimers different records', async () => {
    await using world = await openStore(kind)
    await world.add(...Array.from({ length: 40 }, (_, index) => record(`${index}`)))
    // A19, A20
    const other = sqlOutbox(world.database)
    const claims = await Promise.all([world.store, other, world.store, other].map((store) => store.claim({ limit: 10, lease: 60_000 })))
    const rest = await world.store.claim(all)
    const ids = [...claims.flat(), ...rest].map(({ id }) => id)
    expect(new Set(ids).size).toBe(40)
    expect(ids).toHaveLength(40)
    expect(await other.claim(all)).toEqual([])
  })

  it('takes over an expired lease, counts every attempt, and fences the previous relay', async () => {
    await using world = await openStore(kind)
    const { store } = world
    await world.add(record('1'))
    const [stale] = await store.claim(all)
    expect(stale?.attempts).toBe(1)
    await world.expireLeases()
    const [fresh] = await store.claim(all)
    expect(fresh).toMatchObject({ id: stale?.id, attempts: 2 })
    if (stale === undefined || fresh === undefined) throw failure
    expect(await store.settle([{ id: stale.id, token: stale.token, result: 'published' }])).toEqual(['lost'])
    expect(await store.settle([{ id: stale.id, token: stale.token, result: 'parked', error: 'x' }])).toEqual(['lost'])
    expect(await store.renew([stale], 1000)).toEqual([false])
    await store.release([stale])
    expect(await store.renew([fresh], 60_000)).toEqual([true])
    expect(await store.settle([{ id: fresh.id, token: fresh.token, result: 'published' }])).toEqual(['applied'])
    expect(await store.settle([{ id: fresh.id, token: fresh.token, result: 'published' }])).toEqual(['lost'])
    expect(await world.outbox()).toBe(0)
  })

  it('treats an expired lease as lost, even if no other relay took it over', async () => {
    await using world = await openStore(kind)
    await world.add(record('1'))
    const [claimed] = await world.store.claim(all)
    if (claimed === undefined) throw failure
    await world.expireLeases()
    expect(await world.store.renew([claimed], 1000)).toEqual([false])
    expect(await world.store.settle(published([claimed]))).toEqual(['lost'])
    expect(await world.outbox()).toBe(1)
  })

  it('extends a lease from now, by the database’s clock', async () => {
    await using world = await openStore(kind)
    await world.add(record('1'))
    const claimed = await world.store.claim({ limit: 1, lease: 1000 })
    await world.store.renew(claimed, 3_600_000)
    const [row] = await world.query("SELECT lease_until > clock_timestamp() + interval '59 minutes' AS extended FROM ackord_outbox")
    expect(row).toEqual({ extended: true })
  })

  it('claims only the given destinations, or all but some', async () => {
    await using world = await openStore(kind)
    const { store } = world
    for (const destination of ['a', 'b', 'c']) await world.add(record(destination, { destination }))
    expect(await store.claim({ ...all, destinations: [] })).toEqual([])
    expect(idsOf(await store.claim({ ...all, destinations: ['b', 'nowhere', 'b'] }))).toEqual(['b'])
    expect(idsOf(await store.claim({ ...all, except: ['a'] }))).toEqual(['c'])
    expect(idsOf(await store.claim({ ...all, destinations: ['a', 'c'], except: ['a'] }))).toEqual([])
    expect(idsOf(await store.claim(all))).toEqual(['a'])
  })

  it('does not let one destination hide another, and fills up from destinations with more records', async () => {
    await using world = await openStore(kind)
    const { store } = world
    await world.add(
      ...Array.from({ length: 100 }, (_, index) => record(`a${index}`, { destination: 'a' })),
      record('z', { destination: 'z' }),
    )
    const claimed = await store.claim({ limit: 50, lease: 60_000 })
    expect(claimed).toHaveLength(50)
    expect(idsOf(claimed)).toContain('z')
    expect(idsOf(claimed).slice(0, 49)).toEqual(Array.from({ length: 49 }, (_, index) => `a${index}`))
    expect(await store.claim({ limit: 100, lease: 60_000 })).toHaveLength(51)
  })

  it('does not claim delayed records and retries before they are due', async () => {
    await using world = await openStore(kind)
    const { store } = world
    await world.add(record('delayed', { delay: 60_000 }), record('failing'))
    const [failing, ...others] = await store.claim(all)
    expect([failing?.message.id, others]).toEqual(['failing', []])
    if (failing === undefined) throw failure
    // A21, A22
    const { id, token } = failing
    expect(await store.settle([{ id, token, result: 'failed', error: 'no\0pe', retryAfter: 30_000 }])).toEqual(['applied'])
    expect(await store.claim(all)).toEqual([])
    expect(await store.get(id)).toMatchObject({ state: 'waiting', lastError: 'no\uFFFDpe', attempts: 1 })
    await world.elapse(30_000)
    expect(await store.claim(all)).toMatchObject([{ id, attempts: 2 }])
    await world.elapse(30_000)
    expect(idsOf(await store.claim(all))).toEqual(['delayed'])
  })

  it('claims only records that have failed before, or only those that have not', async () => {
    await using world = await openStore(kind)
    const { store } = world
    await world.add(record('1'), record('2'), record('delayed', { delay: 1 }))
    await world.elapse(1)
    const [first] = await store.claim({ limit: 1, lease: 60_000, destinations: ['events'], retried: 'never' })
    if (first === undefined) throw failure
    await store.release([first])
    const claimed = await store.claim({ ...all, retried: 'never' })
    expect(idsOf(claimed).sort()).toEqual(['1', '2', 'delayed'])
    const [one] = claimed
    if (one === undefined) throw failure
    await store.settle([{ id: one.id, token: one.token, result: 'failed', error: 'x', retryAfter: 0 }])
    expect(await store.claim({ ...all, retried: 'never' })).toEqual([])
    expect(await store.claim({ ...all, retried: 'only' })).toMatchObject([{ id: one.id, attempts: 2 }])
  })

  it('gives due retries at most half while there are new records, and everything otherwise', async () => {
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

  it('returns released records unchanged', async () => {
    await using world = await openStore(kind)
    const { store } = world
    await world.add(record('1'))
    const claimed = await store.claim(all)
    await store.release(claimed)
    expect(await store.claim(all)).toMatchObject([{ attempts: 1 }])
  })

  it('parks a record with unreadable attributes, and returns the others', async () => {
    await using world = await openStore(kind)
    const { store } = world
    await world.add(record('1'), record('2'), record('3'), record('4'))
    // A24
    await world.query("UPDATE ackord_outbox SET attributes = '{\"id\": ' WHERE id = '1'")
    await world.query("UPDATE ackord_outbox SET attributes = '[1]' WHERE id = '2'")
    await world.query("UPDATE ackord_outbox SET attributes = '{\"id\": {}}' WHERE id = '3'")
    expect(idsOf(await store.claim(all))).toEqual(['4'])
    const { records } = await store.list({ state: 'parked' }, { limit: 10 })
    expect(records).toMatchObject([
      { message: { attributes: { id: '1', type: 'order.placed' } }, lastError: expect.stringMatching(/attributes are not/) },
      { message: { attributes: { id: '2' } } },
      { message: { attributes: { id: '3' } } },
    ])
    const attributes = { ...event('1').attributes }
    expect(await store.rearm({ ids: records.slice(0, 1).map(({ id }) => id) }, { attributes })).toBe(1)
    expect(idsOf(await store.claim(all))).toEqual(['1'])
  })

  it('rejects invalid limits and leases, and reports invalid tokens as lost', async () => {
    await using world = await openStore(kind)
    const { store } = world
    await failureOf(store.claim({ limit: 0, lease: 1000 }))
    await failureOf(store.claim({ limit: 1, lease: 0 }))
    const nonsense = [
      { id: '1', token: 'nonsense' },
      { id: 'x', token: '00000000-0000-4000-8000-000000000001/ready/events' },
    ]
    expect(await store.renew(nonsense, 1000)).toEqual([false, false])
    expect(await store.settle(nonsense.map((claim) => ({ ...claim, result: 'published' })))).toEqual(['lost', 'lost'])
    await store.release(nonsense)
    expect(await store.settle([])).toEqual([])
  })
})

describe.each(worldKinds)('settle() on $name', (kind) => {
  it('applies mixed outcomes in one statement and returns their results in order', async () => {
    await using world = await openStore(kind, { retain: true })
    const { store } = world
    await world.add(record('1'), record('2', { destination: 'other' }), record('3'), record('4'))
    const claimed = await store.claim(all)
    const [one, two, three, four] = claimed.map(({ id, token }) => ({ id, token }))
    if (one === undefined || two === undefined || three === undefined || four === undefined) throw failure
    const stale = { id: three.id, token: one.token }
    const answers = await store.settle([
      { ...four, result: 'parked', error: 'poison' },
      { ...stale, token: stale.token.replace(/^./, (character) => (character === '0' ? '1' : '0')), result: 'published' },
      { ...two, result: 'failed', error: 'later', retryAfter: 60_000 },
      { ...one, result: 'published' },
      { ...one, result: 'parked', error: 'twice' },
    ])
    expect(answers).toEqual(['applied', 'lost', 'applied', 'applied', 'lost'])
    expect(await world.query('SELECT id, state, lease_token FROM ackord_outbox ORDER BY id')).toEqual([
      { id: '1', state: 'published', lease_token: null },
      { id: '2', state: 'waiting', lease_token: null },
      { id: '3', state: 'ready', lease_token: expect.any(String) },
      { id: '4', state: 'parked', lease_token: null },
    ])
  })
})

describe.each(worldKinds)('the operator API on $name', (kind) => {
  async function withParked(options: SqlOutboxOptions = {}) {
    const world = await openStore(kind, options)
    await world.add(...['1', '2', '3', '4'].map((id) => record(id, { destination: id === '4' ? 'other' : 'events' })))
    const claimed = await world.store.claim(all)
    await world.store.settle(claimed.map(({ id, token, message }) => ({ id, token, result: 'parked', error: `no ${message.id}` })))
    const { records } = await world.store.list({}, { limit: 10 })
    return { world, ids: records.map(({ id }) => id), records }
  }

  it('never claims parked records, and shows why they are parked', async () => {
    const { world, records } = await withParked()
    await using _ = world
    expect(await world.store.claim(all)).toEqual([])
    expect(records.map(({ state, lastError, attempts }) => [state, lastError, attempts])).toEqual(
      ['1', '2', '3', '4'].map((id) => ['parked', `no ${id}`, 1]),
    )
    expect(records[0]?.parkedAt).toBeGreaterThan(1_700_000_000_000)
  })

  it('re-arms by id and by filter, once', async () => {
    const { world, ids } = await withParked()
    await using _ = world
    const { store } = world
    const [one = ''] = ids
    expect(await store.rearm({ ids: [one, '999', 'nonsense'] })).toBe(1)
    expect(await store.rearm({ ids: [one] })).toBe(0)
    expect(await store.get(one)).toMatchObject({ state: 'ready', attempts: 0, parkedAt: undefined, lastError: 'no 1' })
    expect(await store.rearm({ filter: { destination: 'other' } })).toBe(1)
    expect(idsOf(await store.claim(all)).sort()).toEqual(['1', '4'])
    expect(await store.rearm({ filter: {} })).toBe(2)
  })

  it('re-arms with another destination, data and attributes', async () => {
    const { world, ids } = await withParked()
    await using _ = world
    const [one = ''] = ids
    const edit = { destination: 'elsewhere', data: new Uint8Array([9]), attributes: { partitionkey: 'k', type: 'order.moved' } }
    expect(await world.store.rearm({ ids: [one] }, edit)).toBe(1)
    const [claimed] = await world.store.claim(all)
    expect(claimed).toMatchObject({ id: one, destination: 'elsewhere', attempts: 1 })
    expect(claimed?.message.data).toEqual(new Uint8Array([9]))
    expect(claimed?.message.attributes).toMatchObject({ id: '1', partitionkey: 'k', type: 'order.moved' })
    expect(await world.query("SELECT type, ordering_key FROM ackord_outbox WHERE destination = 'elsewhere'")).toEqual([
      { type: 'order.moved', ordering_key: 'k' },
    ])
  })

  it('discards parked records only', async () => {
    const { world, ids } = await withParked()
    await using _ = world
    await world.add(record('new'))
    const [ready] = (await world.store.list({ state: 'ready' }, { limit: 1 })).records
    expect(await world.store.discard([...ids.slice(0, 2), ready?.id ?? '', 'x'], 'not wanted')).toBe(2)
    expect(await world.outbox()).toBe(3)
  })

  it('lists records by page, oldest first, and by filter', async () => {
    await using world = await openStore(kind)
    const { store } = world
    await world.add(
      ...['1', '2', '3', '4', '5'].map((id) =>
        record(id, { destination: Number(id) % 2 === 0 ? 'even' : 'odd', attributes: { type: `t${id}` } }),
      ),
    )
    await world.add(record('6', { delay: 60_000 }))
    const first = await store.list({}, { limit: 4 })
    expect(first.records.map(({ message }) => message.id)).toEqual(['1', '2', '3', '4'])
    const second = await store.list({}, { limit: 4, after: first.next })
    expect([second.records.map(({ message }) => message.id), second.next]).toEqual([['5', '6'], undefined])
    await store.claim({ limit: 1, lease: 60_000, destinations: ['odd'] })
    const listed = async (filter: OutboxFilter) => (await store.list(filter, { limit: 10 })).records.map(({ message }) => message.id)
    expect(await listed({ state: 'leased' })).toEqual(['1'])
    expect(await listed({ state: 'waiting' })).toEqual(['6'])
    expect(await listed({ state: 'ready', destination: 'odd' })).toEqual(['3', '5'])
    expect(await listed({ type: "t'2" })).toEqual([])
    expect(await listed({ type: 't2' })).toEqual(['2'])
    expect(await store.get('12345')).toBeUndefined()
    expect(await store.get('nonsense')).toBeUndefined()
  })

  it('counts by destination and state', async () => {
    const { world } = await withParked()
    await using _ = world
    expect(await world.store.stats()).toMatchObject({ oldestAge: undefined })
    await world.add(record('5'), record('6'), record('7', { delay: 60_000 }))
    await world.store.claim({ limit: 1, lease: 60_000 })
    const { destinations, oldestAge } = await world.store.stats()
    expect(destinations).toEqual([
      { destination: 'events', ready: 1, waiting: 1, leased: 1, parked: 3, published: 0, oldestAge },
      { destination: 'other', ready: 0, waiting: 0, leased: 0, parked: 1, published: 0, oldestAge: undefined },
    ])
    expect(oldestAge).toBeGreaterThan(0)
  })

  it('cleans up published records only, in bounded batches', async () => {
    const { world } = await withParked({ retain: true })
    await using _ = world
    const { store } = world
    await world.add(...['a', 'b', 'c', 'd', 'e'].map((id) => record(id)))
    const claimed = await store.claim({ limit: 4, lease: 60_000 })
    await store.settle(published(claimed))
    await world.query("UPDATE ackord_outbox SET published_at = published_at - interval '2 days' WHERE id <> 'd' AND state = 'published'")
    await world.query("UPDATE ackord_outbox SET created_at = created_at - interval '9 days'")
    // A28: deletes by published_at and the database's clock, and never deletes unpublished records.
    const old = { olderThan: 86_400_000, limit: 2 }
    expect([await store.deletePublished(old), await store.deletePublished(old), await store.deletePublished(old)]).toEqual([2, 1, 0])
    expect(await world.query('SELECT id FROM ackord_outbox ORDER BY id')).toEqual(['1', '2', '3', '4', 'd', 'e'].map((id) => ({ id })))
  })

  it('says how to create the missing table', async () => {
    await using world = await kind.open({ empty: true })
    expect(await failureOf(sqlOutbox(world.database).claim(all))).toMatchObject({ name: 'SchemaError', problem: 'missing' })
    const outbox = compose(transactionMiddleware(world.database), outboxMiddleware(world.database, { destination: 'events' }))
    expect(await failureOf(handle(outbox, async () => [event('e1')]))).toMatchObject({ name: 'SchemaError', problem: 'missing' })
  })
})
