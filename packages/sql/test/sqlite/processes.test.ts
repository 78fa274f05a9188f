import { Message, silentLogger } from '@ackord/core'
import { VirtualRuntime } from '@ackord/testkit'
import { describe, expect, it } from 'vitest'
import { createSchema, sqlOutbox, validateSchema } from '../../src/index.ts'
import { event, failureOf } from '../support/world.ts'
import { sqliteProcesses } from './support/sqlite-process.ts'
import { nodeKind } from './support/sqlite-world.ts'

const quiet = { logger: silentLogger }
const start = sqliteProcesses()

describe('several processes on one file', () => {
  it('wait for each other without blocking the event loop', async () => {
    const runtime = new VirtualRuntime()
    await using world = await nodeKind.open({ runtime })
    await using other = start(world.path)
    await other.ask('lock')
    let done = false
    const writing = world.database
      .write(async (transaction) => transaction.exec("INSERT INTO orders (id) VALUES ('1')"))
      .then(() => {
        done = true
      })
    const claiming = sqlOutbox(world.database, quiet).claim({ limit: 1, lease: 1000 })
    await runtime.advance(2000)
    expect(done).toBe(false)
    await other.ask('unlock')
    await runtime.advance(100)
    await writing
    expect(await claiming).toEqual([])
    expect(world.count('orders')).toBe(1)
  })

  it('get a clear error when the file stays locked, and have changed nothing', async () => {
    const runtime = new VirtualRuntime()
    await using world = await nodeKind.open({ runtime, lockTimeout: 3000 })
    await using other = start(world.path)
    await other.ask('lock')
    let ran = false
    const refused = failureOf(
      world.database.write(async () => {
        ran = true
      }, quiet),
    )
    await runtime.advance(3100)
    expect(await refused).toMatchObject({
      code: 'ACKORD_DATABASE_BUSY',
      message: expect.stringMatching(/3000 ms.*another connection keeps it locked/),
      cause: { message: 'database is locked' },
    })
    expect(ran).toBe(false)
    expect(runtime.timers).toBe(0)
    await other.ask('unlock')
    await world.database.write(async () => {})
  })

  it('lose no write to each other', async () => {
    await using world = await nodeKind.open({ lockTimeout: 0 })
    world.client.exec('CREATE TABLE counters (n INTEGER NOT NULL); INSERT INTO counters VALUES (0)')
    await using one = start(world.path)
    await using two = start(world.path)
    const asked = [one.ask('write', 100), two.ask('write', 100)]
    for (let n = 0; n < 100; n += 1) {
      await world.database.write(async (transaction) => {
        const [row] = transaction.prepare('SELECT n FROM counters').all() as { n: number }[]
        // Reads before it writes: in a transaction that begins as a reader the write would fail with SQLITE_BUSY, whatever the timeout.
        transaction.prepare('UPDATE counters SET n = ?').run((row?.n ?? 0) + 1)
      })
    }
    await Promise.all(asked)
    expect(world.query('SELECT n FROM counters')).toEqual([{ n: 300 }])
  })

  it('claim disjoint records', async () => {
    await using world = await nodeKind.open({ lockTimeout: 0 })
    const { database } = world
    const ids = Array.from({ length: 500 }, (_, index) => `e${index}`)
    const records = ids.map((id) => ({ destination: 'events', message: new Message(new Uint8Array([1]), event(id).attributes) }))
    await database.write(async (transaction) => await sqlOutbox(database, quiet).append(transaction, records))
    await using one = start(world.path)
    await using two = start(world.path)
    const claimed = (await Promise.all([one.ask('relay', 7), two.ask('relay', 11)])) as string[][]
    expect(claimed.flat().sort()).toEqual([...ids].sort())
    expect(world.count('ackord_outbox')).toBe(0)
  })

  it('create the schema once, all at the same time', async () => {
    await using world = await nodeKind.open({ empty: true, lockTimeout: 0 })
    await using one = start(world.path)
    await using two = start(world.path)
    await Promise.all([createSchema(world.database), one.ask('createSchema'), two.ask('createSchema')])
    await validateSchema(world.database)
    expect(world.count('ackord_meta')).toBe(1)
  })

  it('continue after one of them was killed in its transaction, which leaves no changes', async () => {
    await using world = await nodeKind.open()
    await using other = start(world.path)
    await failureOf(other.ask('die'))
    expect(await other.ended).toBe('SIGKILL')
    await world.database.write(async (transaction) => transaction.exec("INSERT INTO orders (id) VALUES ('of the living')"))
    expect(world.query('SELECT id FROM orders')).toEqual([{ id: 'of the living' }])
  })
})
