import { compose } from '@ackord/core'
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
import { fromMysql2 } from '../../src/mysql/index.ts'
import { splitScript } from '../../src/mysql/sql-text.ts'
import { command, event, failureOf, handle } from '../support/world.ts'
import { checkViolated, isMariadb } from './support/flavour.ts'
import { mysqlKinds, openMysql2 } from './support/mysql-world.ts'

describe.each(mysqlKinds)('the schema on $name', ({ open }) => {
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
    expect(await failureOf(validateSchema(database))).toMatchObject({ problem: 'older' })
    await world.query('UPDATE ackord_meta SET version = 7, oldest_reader = 1')
    await validateSchema(database)
    await createSchema(database)
    await world.query('UPDATE ackord_meta SET version = 7, oldest_reader = 4')
    for (const refused of [validateSchema, createSchema]) {
      const error = await failureOf(refused(database))
      expect(error).toBeInstanceOf(SchemaError)
      expect(error).toMatchObject({ problem: 'newer', message: expect.stringMatching(/Update @ackord\/sql/) })
    }
    // The lock was given back.
    await world.query('UPDATE ackord_meta SET version = 3, oldest_reader = 1')
    await createSchema(database)
    await world.query('DELETE FROM ackord_meta')
    expect(await failureOf(validateSchema(database))).toMatchObject({ problem: 'missing' })
  })

  it('is finished by the next one when a migration was cut off after any of its statements', async () => {
    await using world = await open({ empty: true })
    const statements = splitScript(printSchema(world.database))
    const tables = ['inbox', 'outbox', 'meta', 'relays', 'partitions', 'hands', 'outbox_locks']
    for (let done = 1; done < statements.length; done += 1) {
      for (const table of tables) await world.query(`DROP TABLE IF EXISTS ackord_${table}`)
      for (const sql of statements.slice(0, done)) await world.query(sql)
      await createSchema(world.database)
      await validateSchema(world.database)
      await handle(
        transactional(world.database, { inbox: { consumer: 'c' }, outbox: { destination: 'd' } }),
        async () => [event('e')],
        command('1').message,
      )
      expect(await world.outbox()).toBe(1)
    }
    expect(statements).toHaveLength(14)
  })

  it('takes names of any kind, quoted', async () => {
    await using world = await open({ empty: true })
    const { database } = world
    const tables = { names: { inbox: 'in`box; DROP TABLE orders; --', outbox: 'Ausgang "Ä" \'1\' \\', meta: 'select' } }
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

  it('refuses names that MySQL would not take', async () => {
    await using world = await open({ empty: true })
    for (const name of ['', 'a\0b', 'x'.repeat(65), 'x ', '😀']) {
      expect(await failureOf(createSchema(world.database, { names: { outbox: name } }))).toMatchObject({ code: 'ACKORD_INVALID_OPTION' })
      expect(await failureOf(createSchema(world.database, { schema: name }))).toMatchObject({ code: 'ACKORD_INVALID_OPTION' })
    }
    // MySQL names each check after its table, with `_chk_` and a number.
    await createSchema(world.database, { names: { outbox: 'ä'.repeat(isMariadb ? 64 : 57) } })
  })

  it('keeps its state machine by checks', async () => {
    await using world = await open()
    const outbox = compose(transactionMiddleware(world.database), outboxMiddleware(world.database, { destination: 'd' }))
    await handle(outbox, async () => [event('e1')])
    for (const change of [
      "state = 'gone'",
      "state = 'parked'",
      'parked_at = NOW()',
      "state = 'published'",
      'lease_until = NOW()',
      'attempts = -1',
    ]) {
      expect(await failureOf(world.query(`UPDATE ackord_outbox SET ${change}`))).toMatchObject({ errno: checkViolated })
    }
  })

  it('is safe when ten processes race, in a database that is not there yet', async () => {
    await using world = await open({ empty: true, max: 20 })
    const schema = `${world.schema}_new`
    // A27
    try {
      await Promise.all(Array.from({ length: 10 }, () => createSchema(world.database, { schema })))
      await validateSchema(world.database, { schema })
      await handle(
        transactional(world.database, { inbox: { consumer: 'c', schema }, outbox: { destination: 'd', schema } }),
        async () => [event('e')],
        command('1').message,
      )
      expect(await world.query(`SELECT COUNT(*) AS n FROM ${schema}.ackord_outbox`)).toEqual([{ n: 1 }])
    } finally {
      await world.query(`DROP DATABASE ${schema}`)
    }
  })
})

describe('createSchema()', () => {
  it('waits for another one of the same tables, whether or not it names their database, and not for others', async () => {
    await using world = await openMysql2({ empty: true })
    const waiting = (n: number) => async () => {
      for (let found = -1; found !== n; ) {
        found = (
          await world.query('SELECT ID FROM information_schema.PROCESSLIST WHERE INFO LIKE ? AND STATE = ? AND DB = ?', [
            'SELECT GET_LOCK%',
            'User lock',
            world.schema,
          ])
        ).length
      }
    }
    const holder = await world.pool.getConnection()
    await holder.query(`SELECT GET_LOCK(SHA2(CONCAT('ackord ', ?), 256), 10)`, [`\`${world.schema}\`.\`ackord_meta\``])
    const both = [createSchema(world.database), createSchema(fromMysql2(world.pool))]
    await waiting(2)()
    await createSchema(world.database, { names: { inbox: 'i', outbox: 'o', meta: 'm' } })
    holder.destroy()
    await Promise.all(both)
    await validateSchema(fromMysql2(world.pool))
  })

  it('refuses a server without SKIP LOCKED, before it makes anything', async () => {
    await using world = await openMysql2({ empty: true })
    const { pool } = world
    // As an older server would answer.
    const old = new Proxy(pool, {
      get(target, name) {
        if (name === 'query') return (options: { sql: string }) => answer(options, () => target.query(options))
        if (name !== 'getConnection') return Reflect.get(target, name)
        return async () => {
          const connection = await target.getConnection()
          return new Proxy(connection, {
            get(below, call) {
              // Without the connection below, statements go through the promises.
              if (call === 'connection') return undefined
              if (call === 'query') return (options: { sql: string }) => answer(options, () => below.query(options))
              const value: unknown = Reflect.get(below, call)
              return typeof value === 'function' ? value.bind(below) : value
            },
          })
        }
      },
    })
    const answer = (options: { sql: string }, ask: () => unknown) =>
      options.sql.includes('VERSION()') ? [[{ version: '10.5.23-MariaDB' }], []] : ask()
    const database = fromMysql2(old)
    for (const refused of [createSchema, validateSchema]) {
      expect(await failureOf(refused(database))).toMatchObject({
        code: 'ACKORD_SCHEMA',
        message: expect.stringMatching(/MariaDB 10\.5\.23.*needs MariaDB 10\.6\.0/),
      })
    }
    expect(await world.query('SHOW TABLES')).toHaveLength(1)
  })
})
