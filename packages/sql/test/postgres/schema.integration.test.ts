import { describe, expect, it } from 'vitest'
import { createSchema, transactional, validateSchema } from '../../src/index.ts'
import { fromPg } from '../../src/postgres/index.ts'
import { testSchema } from '../schema/schema-suite.ts'
import { command, event, handle, openPg, worldKinds } from '../support/world.ts'

for (const { name, open } of worldKinds) {
  testSchema({
    name,
    open,
    quotedNames: { names: { inbox: 'in"box; DROP TABLE orders --', outbox: 'Ausgang "Ä" \'1\'', meta: 'select' } },
    invalidNames: ['', 'a\0b', 'x'.repeat(64), 'ä'.repeat(32)],
    now: 'now()',
    checkViolation: { code: '23514' },
  })
}

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
