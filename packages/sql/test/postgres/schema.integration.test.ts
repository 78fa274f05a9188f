import { compose, jsonMarshaler, marshal, silentLogger } from '@ackord/core'
import { describe, expect, it } from 'vitest'
import {
  createSchema,
  outboxMiddleware,
  printSchema,
  SchemaError,
  sqlOutbox,
  transactional,
  transactionMiddleware,
  validateSchema,
} from '../../src/index.ts'
import { fromPg } from '../../src/postgres/index.ts'
import { portOf } from '../../src/transaction/database.ts'
import { command, event, failureOf, handle, openPg, worldKinds } from '../support/world.ts'

describe.each(worldKinds)('the schema on $name', ({ open }) => {
  it('is made once, however often it is asked for', async () => {
    await using world = await open({ empty: true })
    expect(await failureOf(validateSchema(world.database))).toMatchObject({
      problem: 'missing',
      message: expect.stringMatching(/createSchema/),
    })
    await createSchema(world.database)
    const changed = await world.query('SELECT changed_at FROM ackord_meta')
    await createSchema(world.database)
    await validateSchema(world.database)
    expect(await world.query('SELECT changed_at FROM ackord_meta')).toEqual(changed)
    expect(await world.query('SELECT name, version, oldest_reader FROM ackord_meta')).toEqual([
      { name: 'schema', version: 3, oldest_reader: 1 },
    ])
  })

  it('is refused when it is older or too new, and accepted when it is newer and still serves this code', async () => {
    await using world = await open()
    const { database } = world
    await world.query('UPDATE ackord_meta SET version = 0, oldest_reader = 0')
    expect(await failureOf(validateSchema(database))).toMatchObject({
      problem: 'older',
      message: expect.stringMatching(/has|have version 0/),
    })
    await world.query('UPDATE ackord_meta SET version = 7, oldest_reader = 1')
    await validateSchema(database)
    await createSchema(database)
    await world.query('UPDATE ackord_meta SET version = 7, oldest_reader = 4')
    for (const call of [validateSchema, createSchema]) {
      const error = await failureOf(call(database))
      expect(error).toBeInstanceOf(SchemaError)
      expect(error).toMatchObject({ problem: 'newer', message: expect.stringMatching(/Update @ackord\/sql/) })
    }
    expect(await world.query('SELECT version FROM ackord_meta')).toEqual([{ version: 7 }])
    await world.query('DELETE FROM ackord_meta')
    expect(await failureOf(validateSchema(database))).toMatchObject({ problem: 'missing' })
  })

  it('takes names of any kind, quoted', async () => {
    await using world = await open({ empty: true })
    const { database } = world
    const tables = { names: { inbox: 'in"box; DROP TABLE orders --', outbox: 'Ausgang "Ä" \'1\'', meta: 'select' } }
    await createSchema(database, tables)
    await validateSchema(database, tables)
    const middleware = transactional(database, { inbox: { consumer: 'c', ...tables }, outbox: { destination: 'events', ...tables } })
    await handle(middleware, async () => [event('e1')])
    await handle(middleware, async () => [event('e2')])
    const store = sqlOutbox(database, tables)
    const [record, ...more] = await store.claim({ limit: 10, lease: 1000 })
    expect([record?.message.id, more]).toEqual(['e1', []])
    expect(await world.orders()).toBe(0)
  })

  it('refuses names that PostgreSQL would cut off or not take', async () => {
    await using world = await open({ empty: true })
    for (const name of ['', 'a\0b', 'x'.repeat(64), 'ä'.repeat(32)]) {
      expect(await failureOf(createSchema(world.database, { names: { outbox: name } }))).toMatchObject({ code: 'ACKORD_INVALID_OPTION' })
      expect(await failureOf(createSchema(world.database, { schema: name }))).toMatchObject({ code: 'ACKORD_INVALID_OPTION' })
    }
  })

  it('keeps its state machine by checks', async () => {
    await using world = await open()
    await handle(compose(transactionMiddleware(world.database), outboxMiddleware(world.database, { destination: 'd' })), async () => [
      event('e1'),
    ])
    for (const change of [
      "state = 'gone'",
      "state = 'parked'",
      'parked_at = now()',
      "state = 'published'",
      'lease_until = now()',
      'attempts = -1',
    ]) {
      expect(await failureOf(world.query(`UPDATE ackord_outbox SET ${change}`))).toMatchObject({ code: '23514' })
    }
  })

  it('is brought from version 1 to 2 with what is in it', async () => {
    await using world = await open({ empty: true })
    const { database } = world
    const { driver, dialect, tables } = portOf(database)
    const { migrations, meta, setVersion } = dialect.store.schema
    const [first] = migrations
    const version1 = [meta(tables({})), first?.sql(tables({})), setVersion(tables({}), 1, 1)].join(';\n')
    await driver.transaction([], (session) => session.script(version1), AbortSignal.any([]))
    expect(await failureOf(validateSchema(database))).toMatchObject({ problem: 'older' })
    const store = sqlOutbox(database, { logger: silentLogger })
    const append = (...ids: string[]) =>
      database.write((transaction) =>
        store.append(
          transaction,
          ids.map((id) => ({ destination: 'd', message: marshal(event(id, { partitionkey: 'k' }), jsonMarshaler) })),
        ),
      )
    await append('e1', 'e2')
    await createSchema(database)
    await validateSchema(database)
    await append('e3')
    const claimed = await sqlOutbox(database, { order: 'perKey', logger: silentLogger }).claim({ limit: 10, lease: 1000 })
    expect(claimed.map(({ message }) => message.id)).toEqual(['e1', 'e2', 'e3'])
  })

  it('can be printed, and what is printed is what is made', async () => {
    await using world = await open({ empty: true })
    const sql = printSchema(world.database)
    const { driver } = portOf(world.database)
    await driver.transaction([], (session) => session.script(sql), AbortSignal.any([]))
    await validateSchema(world.database)
    await createSchema(world.database)
  })
})

describe('createSchema() on a pg pool', () => {
  it('is safe when ten processes race, in a schema that is not there yet', async () => {
    await using world = await openPg({ empty: true, max: 20 })
    const schema = `${world.schema}_new`
    // A27
    try {
      await Promise.all(Array.from({ length: 10 }, () => createSchema(fromPg(world.pool, { schema }))))
      await validateSchema(world.database, { schema })
      await handle(
        transactional(world.database, { inbox: { consumer: 'c', schema }, outbox: { destination: 'd', schema } }),
        async () => [event('e')],
        command('1').message,
      )
      expect(await world.query(`SELECT count(*)::int AS n FROM "${schema}".ackord_outbox`)).toEqual([{ n: 1 }])
    } finally {
      await world.query(`DROP SCHEMA "${schema}" CASCADE`)
    }
  })
})
