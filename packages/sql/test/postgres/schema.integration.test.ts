import { jsonMarshaler, marshal, silentLogger } from '@ackord/core'
import { describe, expect, it } from 'vitest'
import { createSchema, type Database, type SqlOutbox, sqlOutbox, transactional, validateSchema } from '../../src/index.ts'
import { fromPg } from '../../src/postgres/index.ts'
import { portOf } from '../../src/transaction/database.ts'
import { testSchema } from '../schema/schema-suite.ts'
import { command, event, failureOf, handle, openPg, worldKinds } from '../support/world.ts'

const quiet = { logger: silentLogger }

for (const { name, open } of worldKinds) {
  testSchema({
    name,
    version: 7,
    open,
    quotedNames: { names: { inbox: 'in"box; DROP TABLE orders --', outbox: 'Ausgang "Ä" \'1\'', meta: 'select' } },
    invalidNames: ['', 'a\0b', 'x'.repeat(64), 'ä'.repeat(32)],
    now: 'now()',
    checkViolation: { code: '23514' },
  })
}

describe.each(worldKinds)('the log mode on $name', ({ open }) => {
  it('is rejected on tables of version 5, on which everything else works, and is there once these are migrated', async () => {
    await using world = await open({ empty: true })
    const { database } = world
    const { driver, dialect, tables } = portOf(database)
    const { migrations, meta, setVersion } = dialect.store.schema
    const old = migrations.slice(0, 5).map(({ sql }) => sql(tables({})))
    const script = [meta(tables({})), ...old, setVersion(tables({}), 5, 1)].join(';\n')
    await driver.transaction([], (session) => session.script(script), AbortSignal.any([]))
    const appendTo = (store: SqlOutbox<unknown>, id: string) =>
      (database as Database<unknown>).write((transaction) =>
        store.append(transaction, [{ destination: 'd', message: marshal(event(id), jsonMarshaler) }]),
      )
    const inTable = sqlOutbox(database, quiet)
    await appendTo(inTable, 'e1')
    expect((await inTable.list({}, { limit: 10 })).records).toHaveLength(1)
    const [claimed] = await inTable.claim({ limit: 10, lease: 60_000 })
    expect(await inTable.settle([{ id: claimed?.id ?? '', token: claimed?.token ?? '', result: 'published' }])).toEqual(['applied'])

    const inLog = sqlOutbox(database, { mode: 'log', ...quiet })
    const missing = { problem: 'missing', message: expect.stringMatching(/createSchema\(database\)/) }
    for (const call of [() => appendTo(inLog, 'e2'), () => inLog.claim({ limit: 10, lease: 60_000 }), () => inLog.stats()]) {
      expect(await failureOf(call())).toMatchObject(missing)
    }

    await createSchema(database)
    await appendTo(inLog, 'e3')
    const claims = await inLog.claim({ limit: 10, lease: 60_000 })
    expect(claims.map(({ message }) => message.id)).toEqual(['e3'])
    expect(await inLog.settle(claims.map(({ id, token }) => ({ id, token, result: 'published' })))).toEqual(['applied'])
  })
})

describe('createSchema() on a pg pool', () => {
  it('is safe when ten processes race, in a schema that does not exist yet', async () => {
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
