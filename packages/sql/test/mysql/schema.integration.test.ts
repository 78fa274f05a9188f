import { describe, expect, it } from 'vitest'
import { createSchema, printSchema, transactional, validateSchema } from '../../src/index.ts'
import { fromMysql2 } from '../../src/mysql/index.ts'
import { splitScript } from '../../src/mysql/sql-text.ts'
import { testSchema } from '../schema/schema-suite.ts'
import { command, event, failureOf, handle } from '../support/world.ts'
import { checkViolated, isMariadb } from './support/flavour.ts'
import { mysqlKinds, openMysql2 } from './support/mysql-world.ts'

for (const { name, open } of mysqlKinds) {
  testSchema({
    name,
    version: 6,
    open,
    quotedNames: { names: { inbox: 'in`box; DROP TABLE orders; --', outbox: 'Ausgang "Ä" \'1\' \\', meta: 'select' } },
    invalidNames: ['', 'a\0b', 'x'.repeat(65), 'x ', '😀'],
    now: 'NOW()',
    checkViolation: { errno: checkViolated },
  })
}

describe.each(mysqlKinds)('createSchema() on $name', ({ open }) => {
  it('is completed by the next call after a migration was interrupted after any of its statements', async () => {
    await using world = await open({ empty: true })
    const statements = splitScript(printSchema(world.database))
    const tables = ['inbox', 'outbox', 'meta', 'relays', 'partitions', 'hands', 'notes', 'idempotency', 'process', 'outbox_locks']
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
    expect(statements).toHaveLength(21)
  })

  it('accepts the longest name', async () => {
    await using world = await open({ empty: true })
    // MySQL names each CHECK constraint after its table, with `_chk_` and a number.
    await createSchema(world.database, { names: { outbox: 'ä'.repeat(isMariadb ? 64 : 57) } })
  })

  it('is safe when ten processes race, in a database that does not exist yet', async () => {
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
  it('waits for another call on the same tables, whether or not it names their database, and not for others', async () => {
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

  it('rejects a server without SKIP LOCKED, before it creates anything', async () => {
    await using world = await openMysql2({ empty: true })
    const { pool } = world
    // Responds like an older server.
    const old = new Proxy(pool, {
      get(target, name) {
        if (name === 'query') return (options: { sql: string }) => answer(options, () => target.query(options))
        if (name !== 'getConnection') return Reflect.get(target, name)
        return async () => {
          const connection = await target.getConnection()
          return new Proxy(connection, {
            get(below, call) {
              // Hides the underlying connection, so that statements are sent through the promise API.
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
