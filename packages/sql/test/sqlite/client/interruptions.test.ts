import { jsonMarshaler, marshal, rootContext, silentLogger, systemRuntime } from '@ackord/core'
import { deferred } from '@ackord/testkit'
import { describe, expect, it } from 'vitest'
import { sqlOutbox } from '../../../src/index.ts'
import { fromSqlite } from '../../../src/sqlite/index.ts'
import { event } from '../../support/world.ts'
import { failingClient, sqliteError } from '../support/failing-client.ts'
import { nodeKind, sqliteKinds, type TestHandle } from '../support/sqlite-world.ts'

const insertSql = 'INSERT INTO orders (id) VALUES (?)'
const insert = (handle: TestHandle, id: string) => void handle.prepare(insertSql).run(id)
const withSignal = (signal: AbortSignal) => ({ context: rootContext({ signal }) })
const outcome = (work: Promise<unknown>) =>
  work.then(
    () => 'committed',
    (error: Error) => error.message,
  )

describe.each(sqliteKinds)('interruptions on $name', ({ open }) => {
  it('does not affect the iteration of the next transaction when the iteration of an aborted one ends late', async () => {
    await using world = await open()
    const { database } = world
    await database.write(async (tx) => {
      for (const id of ['1', '2', '3', '4']) insert(tx, id)
    })
    const read = async (tx: TestHandle, each: (id: string) => Promise<void>) => {
      for (const row of tx.prepare('SELECT id FROM orders ORDER BY id').iterate()) await each((row as { id: string }).id)
    }
    const abort = new AbortController()
    const slow = deferred()
    const first = outcome(database.write((tx) => read(tx, () => slow.promise), withSignal(abort.signal)))
    abort.abort(new Error('late'))
    const seen: string[] = []
    await database.write((tx) =>
      read(tx, async (id) => {
        seen.push(id)
        if (seen.length !== 2) return
        slow.reject(new Error('gave up'))
        await first
      }),
    )
    expect(seen).toEqual(['1', '2', '3', '4'])
  })

  it('stores all of an append or nothing, even if its failure is caught', async () => {
    await using world = await open()
    const outbox = sqlOutbox(world.database, { logger: silentLogger })
    world.client.exec(`CREATE TRIGGER t BEFORE INSERT ON ackord_outbox WHEN new.id = 'e120' BEGIN SELECT RAISE(ABORT, 'no'); END`)
    const records = Array.from({ length: 150 }, (_, i) => ({ destination: 'x', message: marshal(event(`e${i}`), jsonMarshaler) }))
    await outcome(world.database.write(async (tx) => void (await outbox.append(tx, records).catch(() => {}))))
    expect(world.count('ackord_outbox')).toBe(0)
  })

  it.each([false, true])('releases the turn when its client was closed during an iteration (aborted: %s)', async (aborted) => {
    await using world = await open()
    const client = world.connect()
    const database = fromSqlite(client, { logger: silentLogger })
    await database.write(async (tx) => {
      insert(tx, '1')
      insert(tx, '2')
    })
    const abort = new AbortController()
    await outcome(
      database.write(async (tx) => {
        tx.prepare('SELECT id FROM orders').iterate().next()
        client.close()
        if (aborted) abort.abort(new Error('late'))
      }, withSignal(abort.signal)),
    )
    // SQLite itself keeps the lock of the closed connection until the statement is garbage-collected; the turn must be released anyway.
    const other = fromSqlite(world.client, { logger: silentLogger, lockTimeout: 50 })
    expect(await outcome(other.write(async (tx) => insert(tx, '3')))).toMatch(/^committed$|lockTimeout/)
  })

  it('does not let a waiter begin if its signal is aborted in the same event-loop turn', async () => {
    await using world = await open()
    const log: string[] = []
    const client = failingClient(world.connect(), (sql) => void log.push(sql) as undefined)
    const database = fromSqlite(client, { logger: silentLogger })
    await database.write(async (tx) => insert(tx, '0'))
    const [one, two] = [new AbortController(), new AbortController()]
    const never = deferred()
    const a = outcome(database.write(() => never.promise, withSignal(one.signal)))
    const b = outcome(database.write(async (tx) => insert(tx, 'b'), withSignal(two.signal)))
    log.length = 0
    one.abort(new Error('1'))
    two.abort(new Error('2'))
    never.resolve()
    expect([await a, await b]).toEqual(['1', '2'])
    expect(log.filter((sql) => sql.startsWith('BEGIN'))).toEqual([])
  })
})

it('returns statements once when COMMIT succeeds at the second attempt, at the same time as an abort', async () => {
  await using world = await nodeKind.open()
  let busy = false
  const texts: string[] = []
  const abort = new AbortController()
  let next: Promise<unknown> | undefined
  const client = failingClient(world.connect(), (sql) => {
    texts.push(sql)
    if (sql !== 'COMMIT' || !busy) return undefined
    busy = false
    queueMicrotask(() => {
      abort.abort(new Error('too long'))
      next = database.write(async (tx) => {
        const one = tx.prepare(insertSql)
        for (let turn = 0; turn < 10; turn += 1) await undefined
        tx.prepare(insertSql).run('b1')
        one.run('b2')
      })
    })
    return sqliteError(5, 'database is locked')
  })
  const database = fromSqlite(client, { logger: silentLogger })
  await database.write(async (tx) => insert(tx, 'warm'))
  busy = true
  texts.length = 0
  await database.write(async (tx) => insert(tx, 'a'), withSignal(abort.signal))
  await next
  expect(texts.filter((sql) => sql === insertSql)).toHaveLength(1)
})

it('does not send, in the next transaction, a COMMIT that was aborted while it waited', async () => {
  await using world = await nodeKind.open()
  const timers: (() => void)[] = []
  const runtime = { ...systemRuntime, setTimeout: (callback: () => void) => ({ cancel() {}, at: timers.push(callback) }) }
  let busy = 2
  const client = failingClient(world.connect(), (sql) =>
    sql === 'COMMIT' && busy-- > 0 ? sqliteError(5, 'database is locked') : undefined,
  )
  const database = fromSqlite(client, { logger: silentLogger, runtime, lockTimeout: 0 })
  const abort = new AbortController()
  const a = outcome(database.write(async (tx) => insert(tx, 'a'), withSignal(abort.signal)))
  for (let turn = 0; turn < 30; turn += 1) await undefined
  timers[0]?.()
  abort.abort(new Error('too long'))
  const b = outcome(
    database.write(async (tx) => {
      insert(tx, 'b')
      for (let turn = 0; turn < 10; turn += 1) await undefined
    }),
  )
  expect([await a, await b, world.query('SELECT id FROM orders')]).toEqual(['too long', 'committed', [{ id: 'b' }]])
})
