import { silentLogger } from '@ackord/core'
import createKnex, { type Knex } from 'knex'
import { describe, expect, it } from 'vitest'
import { depthOfOtherClients } from '../../../../../scripts/test-depth.mjs'
import { createSchema, transactionMiddleware } from '../../../src/index.ts'
import { fromKnex } from '../../../src/postgres/index.ts'
import { testAdapter } from '../../support/adapter-suite.ts'
import { testConformance } from '../../support/conformance.ts'
import { openSchema, postgresUrl } from '../../support/own-schema.ts'
import { failureOf, handle } from '../../support/world.ts'

const settings = { logger: silentLogger }

async function openKnex(options: { readonly max?: number } & Knex.Config = {}) {
  const { max = 10, ...config } = options
  const own = await openSchema({ client: 'Knex' })
  const { schema } = own
  const connection = { connectionString: postgresUrl, application_name: schema }
  const knex = createKnex({ client: 'pg', connection, searchPath: schema, pool: { min: 0, max }, ...config })
  const database = fromKnex(knex, { schema })
  await own.createTables(database)
  return {
    ...own,
    knex,
    database,
    root: knex,
    begin: (work: (transaction: Knex) => Promise<void>) => knex.transaction(work),
    async openSession() {
      let transaction: Knex.Transaction | undefined
      return {
        begin: async () => (transaction = await knex.transaction()),
        commit: async () => transaction?.commit(),
        async [Symbol.asyncDispose]() {},
      }
    },
    async run(handle: Knex, text: string, parameters: unknown[]): Promise<Record<string, unknown>[]> {
      return (await handle.raw(text.replaceAll(/\$\d/g, '?'), parameters as string[])).rows
    },
    async [Symbol.asyncDispose]() {
      await knex.destroy()
      await own[Symbol.asyncDispose]()
    },
  }
}

// The complete suites run on pg by default; on this client they run only in `make proof`.
testConformance('Knex', openKnex, depthOfOtherClients)
testAdapter('Knex', openKnex)

describe('fromKnex()', () => {
  it('lets a repository in Knex take part in the transaction, and use the pool elsewhere', async () => {
    await using world = await openKnex()
    const { database } = world
    const repository = {
      async save(id: string, note: string) {
        await database.executor()('orders').insert({ id, note })
      },
      async noteOf(id: string): Promise<string | undefined> {
        const found = await database.executor().select('note').from('orders').where({ id }).first()
        return found?.note
      },
    }
    const transaction = transactionMiddleware(database, settings)
    const failed = handle(transaction, async () => {
      await repository.save('1', 'rolled back')
      expect(await repository.noteOf('1')).toBe('rolled back')
      throw new Error('failed')
    })
    expect((await failureOf(failed)).message).toBe('failed')
    expect(await repository.noteOf('1')).toBeUndefined()
    await handle(transaction, async () => {
      await repository.save('1', 'committed')
      await failureOf(
        handle(transaction, async () => {
          await repository.save('2', 'in a savepoint')
          throw new Error('failed')
        }),
      )
      return []
    })
    expect([await repository.noteOf('1'), await repository.noteOf('2')]).toEqual(['committed', undefined])
  })

  it('tracks every way to create a query: of the transaction, raw, with a CTE, of the schema, in batches, nested', async () => {
    await using world = await openKnex()
    const { database } = world
    let kept: Knex | undefined
    await database.write(async (knex) => {
      kept = knex
      await knex.insert({ id: '1' }).into('orders')
      await knex.table('orders').insert({ id: '2' })
      await knex('orders').insert({ id: '3', note: knex.raw('upper(?)', ['note']) })
      await knex.batchInsert('orders', [{ id: '4' }, { id: '5' }], 1)
      await knex.schema.createTable('made', (table) => table.text('id'))
      await knex('made').insert(knex.select('id').from('orders'))
      const found = await knex
        .with('few', knex('made').where('id', '<', '3'))
        .from('few')
        .orderBy('id')
        .clone()
      expect(found).toEqual([{ id: '1' }, { id: '2' }])
      await knex.transaction(async (inner) => await inner('orders').insert({ id: '6' }))
      await failureOf(
        knex.transaction(async (inner) => {
          await inner('orders').insert({ id: '7' })
          throw new Error('undone')
        }),
      )
    }, settings)
    expect(await world.orders()).toBe(6)
    const late = [
      () => kept?.('orders').insert({ id: 'late' }),
      () => kept?.raw('SELECT 1'),
      () => kept?.select().from('orders').clone(),
      () => kept?.schema.dropTable('orders'),
      () => kept?.('orders').where({ id: kept.select('id').from('orders') }),
    ]
    for (const query of late) expect((await failureOf((async () => await query())())).code).toBe('ACKORD_SCOPE_ENDED')
  })

  it('rejects commit() and rollback(), and unsupported clients', async () => {
    await using world = await openKnex()
    await world.database.write(async (knex) => {
      const transaction = knex as Knex.Transaction
      expect(() => transaction.commit()).toThrow(/middleware commits/)
      expect(() => transaction.rollback()).toThrow(/middleware commits/)
    }, settings)
    expect(() => fromKnex({} as Knex)).toThrow(/fromKnex\(knex\)\.transaction/)
    expect(() => fromKnex(createKnex({ client: 'pgnative' }))).toThrow(/'pgnative' does not transfer/)
  })

  it('hides the library’s own statements from hooks', async () => {
    await using world = await openKnex({
      postProcessResponse: () => [],
      wrapIdentifier: (name, quote) => quote(name.toUpperCase()),
    })
    await world.database.write(async () => {}, settings)
    await createSchema(world.database)
  })
})
