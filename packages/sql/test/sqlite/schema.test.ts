import { silentLogger } from '@ackord/core'
import { describe, expect, it } from 'vitest'
import { createSchema, printSchema, validateSchema } from '../../src/index.ts'
import { fromSqlite } from '../../src/sqlite/index.ts'
import { testSchema } from '../schema/schema-suite.ts'
import { failureOf } from '../support/world.ts'
import { sqliteKinds } from './support/sqlite-world.ts'

const quiet = { logger: silentLogger }

for (const { name, open } of sqliteKinds) {
  testSchema({
    name,
    version: 6,
    open,
    quotedNames: { schema: 'main', names: { inbox: 'in"box; DROP TABLE orders --', outbox: 'Ausgang "Ä" \'1\'', meta: 'select' } },
    invalidNames: ['', 'a\0b', 'sqlite_outbox'],
    now: '1',
    checkViolation: { message: expect.stringMatching(/CHECK constraint failed/) },
  })
}

describe.each(sqliteKinds)('createSchema() on $name', ({ open }) => {
  it('is created once when several clients call createSchema() at the same time', async () => {
    await using world = await open({ empty: true })
    const others = Array.from({ length: 3 }, () => fromSqlite(world.connect(), quiet))
    await Promise.all([world.database, ...others].map((database) => createSchema(database)))
    await validateSchema(world.database)
  })

  it('is not created in part when a statement fails', async () => {
    await using world = await open({ empty: true })
    world.client.exec('CREATE TABLE ackord_outbox (id TEXT)')
    expect((await failureOf(createSchema(world.database))).message).toMatch(/already exists/)
    expect(world.query("SELECT name FROM sqlite_schema WHERE name LIKE 'ackord%'")).toEqual([{ name: 'ackord_outbox' }])
  })

  it('is the same if the statements of printSchema() are run', async () => {
    await using world = await open({ empty: true })
    world.client.exec(printSchema(world.database))
    await validateSchema(world.database)
    await using made = await open()
    const tables = "SELECT type, name, sql FROM sqlite_schema WHERE name LIKE 'ackord%' ORDER BY name"
    expect(world.query(tables)).toEqual(made.query(tables))
  })
})
