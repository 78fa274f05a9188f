import { silentLogger } from '@ackord/core'
import { describe, expect, it } from 'vitest'
import { createSchema, printSchema, SchemaError, sqlOutbox, transactional, validateSchema } from '../../src/index.ts'
import { fromSqlite } from '../../src/sqlite/index.ts'
import { event, failureOf, handle } from '../support/world.ts'
import { sqliteKinds } from './support/sqlite-world.ts'

const quiet = { logger: silentLogger }

describe.each(sqliteKinds)('the schema on $name', ({ open }) => {
  it('is made once, however often it is asked for, by whichever client', async () => {
    await using world = await open({ empty: true })
    expect(await failureOf(validateSchema(world.database))).toMatchObject({
      problem: 'missing',
      message: expect.stringMatching(/createSchema/),
    })
    const others = Array.from({ length: 3 }, () => fromSqlite(world.connect(), quiet))
    await Promise.all([world.database, ...others].map((database) => createSchema(database)))
    const changed = world.query('SELECT changed_at FROM ackord_meta')
    await createSchema(world.database)
    await validateSchema(world.database)
    expect(world.query('SELECT changed_at FROM ackord_meta')).toEqual(changed)
    expect(world.query('SELECT name, version, oldest_reader FROM ackord_meta')).toEqual([{ name: 'schema', version: 3, oldest_reader: 1 }])
  })

  it('is refused when it is older or too new, and accepted when it is newer and still serves this code', async () => {
    await using world = await open()
    const { database } = world
    world.query('UPDATE ackord_meta SET version = 0, oldest_reader = 0')
    expect(await failureOf(validateSchema(database))).toMatchObject({ problem: 'older' })
    world.query('UPDATE ackord_meta SET version = 7, oldest_reader = 1')
    await validateSchema(database)
    await createSchema(database)
    world.query('UPDATE ackord_meta SET version = 7, oldest_reader = 4')
    for (const rejected of [validateSchema(database), createSchema(database)]) {
      const error = await failureOf(rejected)
      expect(error).toBeInstanceOf(SchemaError)
      expect(error).toMatchObject({ problem: 'newer', message: expect.stringMatching(/Update @ackord\/sql/) })
    }
    expect(world.query('SELECT version FROM ackord_meta')).toEqual([{ version: 7 }])
  })

  it('is not half made when a part of it fails', async () => {
    await using world = await open({ empty: true })
    world.client.exec('CREATE TABLE ackord_outbox (id TEXT)')
    expect((await failureOf(createSchema(world.database))).message).toMatch(/already exists/)
    expect(world.query("SELECT name FROM sqlite_schema WHERE name LIKE 'ackord%'")).toEqual([{ name: 'ackord_outbox' }])
  })

  it('takes names of any kind, quoted, and the schema main', async () => {
    await using world = await open({ empty: true })
    const { database } = world
    const tables = { schema: 'main', names: { inbox: 'in"box; DROP TABLE orders --', outbox: 'Ausgang "Ä" \'1\'', meta: 'select' } }
    await createSchema(database, tables)
    await validateSchema(database, tables)
    const middleware = transactional(database, {
      inbox: { consumer: 'c', ...tables },
      outbox: { destination: 'events', ...tables },
      transaction: quiet,
    })
    await handle(middleware, async () => [event('e1')])
    await handle(middleware, async () => [event('e2')])
    const store = sqlOutbox(database, { ...tables, ...quiet })
    const [record, ...more] = await store.claim({ limit: 10, lease: 1000 })
    expect([record?.message.id, more]).toEqual(['e1', []])
    expect((await store.list({}, { limit: 10 })).records).toHaveLength(1)
    expect(world.count('orders')).toBe(0)
  })

  it('can be printed and made by hand', async () => {
    await using world = await open({ empty: true })
    world.client.exec(printSchema(world.database))
    await validateSchema(world.database)
    await using made = await open()
    const tables = "SELECT type, name, sql FROM sqlite_schema WHERE name LIKE 'ackord%' ORDER BY name"
    expect(world.query(tables)).toEqual(made.query(tables))
  })
})
