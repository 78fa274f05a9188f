import { silentLogger } from '@ackord/core'
import createKnex, { type Knex } from 'knex'
import { describe, expect, it } from 'vitest'
import { depthOfOtherClients } from '../../../../../scripts/test-depth.mjs'
import { createSchema, transactionMiddleware } from '../../../src/index.ts'
import { fromKnex } from '../../../src/mysql/index.ts'
import { failureOf, handle } from '../../support/world.ts'
import { type OpenOptions, testMysqlAdapter } from '../support/mysql-adapter.ts'
import { testMysqlConformance } from '../support/mysql-conformance.ts'
import { openDoor, poolOptions } from '../support/mysql-world.ts'

const settings = { logger: silentLogger }

async function openKnex({ max = 10, port, restricted = false, config = {} }: OpenOptions & { readonly config?: Knex.Config } = {}) {
  const door = await openDoor({ client: 'Knex', restricted })
  const { host = '', user = '', password = '', port: usual = 0 } = poolOptions(door.schema, max, door.server)
  const connection = { host, user, password, port: port ?? usual, database: door.schema }
  const knex = createKnex({ client: 'mysql2', connection, pool: { min: 0, max }, log: { warn() {} }, ...config })
  const database = fromKnex(knex, { schema: door.schema })
  await door.createTables(database)
  return {
    ...door,
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
      return (await handle.raw(text, parameters as string[]))[0]
    },
    async [Symbol.asyncDispose]() {
      await knex.destroy()
      await door.close()
    },
  }
}

// The complete suites run on mysql2 by default; on this client they run only in `make proof`.
testMysqlConformance('Knex', openKnex, (world, handle: Knex, text, values) => world.run(handle, text, values), depthOfOtherClients)
testMysqlAdapter('Knex', openKnex)

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

  it('tracks raw queries, batches and nested transactions, and rejects schema changes', async () => {
    await using world = await openKnex()
    let kept: Knex | undefined
    await world.database.write(async (knex) => {
      kept = knex
      await knex('orders').insert({ id: '1', note: knex.raw('upper(?)', ['note']) })
      await knex.batchInsert('orders', [{ id: '2' }, { id: '3' }], 1)
      await knex.transaction(async (inner) => await inner('orders').insert({ id: '4' }))
      await failureOf(
        knex.transaction(async (inner) => {
          await inner('orders').insert({ id: '5' })
          throw new Error('undone')
        }),
      )
      const made = failureOf((async () => await knex.schema.createTable('made', (table) => table.text('id')))())
      expect((await made).code).toBe('ACKORD_TRANSACTION_REQUIRED')
    }, settings)
    expect(await world.orders()).toBe(4)
    expect((await failureOf((async () => await kept?.('orders').insert({ id: 'late' }))())).code).toBe('ACKORD_SCOPE_ENDED')
  })

  it('hides the library’s own statements from hooks', async () => {
    await using world = await openKnex({ config: { postProcessResponse: () => [] } })
    await world.database.write(async () => {}, settings)
    await createSchema(world.database)
  })
})
