import { silentLogger } from '@ackord/core'
import { eq, sql } from 'drizzle-orm'
import { drizzle } from 'drizzle-orm/node-postgres'
import { pgTable, text } from 'drizzle-orm/pg-core'
import { describe, expect, it } from 'vitest'
import { depthOfOtherClients, isProof } from '../../../../../scripts/test-depth.mjs'
import { transactionMiddleware } from '../../../src/index.ts'
import { fromDrizzle } from '../../../src/postgres/index.ts'
import { testAdapter } from '../../support/adapter-suite.ts'
import { testConformance, testOrder } from '../../support/conformance.ts'
import { openSchema } from '../../support/own-schema.ts'
import { failureOf, handle } from '../../support/world.ts'

const orders = pgTable('orders', { id: text().primaryKey(), note: text() })
const settings = { logger: silentLogger }

async function openDrizzle(options: { readonly max?: number } = {}) {
  const own = await openSchema({ client: 'Drizzle' })
  const pool = own.createPool(options)
  pool.on('error', () => {})
  const db = drizzle(pool, { schema: { orders } })
  const database = fromDrizzle(db, { schema: own.schema })
  type Handle = ReturnType<typeof database.executor>
  await own.createTables(database)
  return {
    ...own,
    db,
    database,
    root: db as Handle,
    begin: (work: (transaction: Handle) => Promise<void>) => db.transaction(work),
    async run(handle: Handle, statement: string, parameters: unknown[]) {
      const [first = '', ...rest] = statement.split(/\$\d/)
      const chunks = rest.map((chunk, index) => sql`${parameters[index]}${sql.raw(chunk)}`)
      return (await handle.execute(sql.join([sql.raw(first), ...chunks]))).rows
    },
    async [Symbol.asyncDispose]() {
      await pool.end()
      await own[Symbol.asyncDispose]()
    },
  }
}

// The complete suites run on pg by default; on this client they run only in `make proof`.
testConformance('Drizzle', openDrizzle, depthOfOtherClients)
if (isProof) testOrder('Drizzle, log mode', openDrizzle, 'basic', 'log')
testAdapter('Drizzle', openDrizzle)

describe('fromDrizzle()', () => {
  it('lets a repository in Drizzle take part in the transaction, and use the pool elsewhere', async () => {
    await using world = await openDrizzle()
    const { database } = world
    const repository = {
      async save(id: string, note: string) {
        await database.executor().insert(orders).values({ id, note })
      },
      async noteOf(id: string) {
        const [found] = await database.executor().select().from(orders).where(eq(orders.id, id))
        // Drizzle's relational queries return the same row.
        expect(await database.executor().query.orders.findFirst({ where: eq(orders.id, id) })).toEqual(found)
        return found?.note
      },
      count: () => database.executor().$count(orders),
    }
    const transaction = transactionMiddleware(database, settings)
    const failed = handle(transaction, async () => {
      await repository.save('1', 'rolled back')
      expect([await repository.noteOf('1'), await repository.count()]).toEqual(['rolled back', 1])
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
    expect([await repository.noteOf('1'), await repository.count()]).toEqual(['committed', 1])
  })

  it('tracks prepared queries and nested transactions of Drizzle', async () => {
    await using world = await openDrizzle()
    const { database } = world
    let prepared: { execute(values: { id: string }): Promise<unknown> } | undefined
    let nested: ReturnType<typeof database.executor> | undefined
    await database.write(async (transaction) => {
      prepared = transaction
        .insert(orders)
        .values({ id: sql.placeholder('id') })
        .prepare('insert_order')
      await prepared.execute({ id: '1' })
      const undone = transaction.transaction(async (inner) => {
        nested = inner
        await inner.insert(orders).values({ id: '2' })
        inner.rollback()
      })
      await failureOf(undone)
      await transaction.transaction(async (inner) => {
        await inner.insert(orders).values({ id: '3' })
      })
    }, settings)
    expect((await world.query('SELECT id FROM orders ORDER BY id')).map(({ id }) => id)).toEqual(['1', '3'])
    expect((await failureOf(Promise.resolve(prepared?.execute({ id: '4' })))).code).toBe('ACKORD_SCOPE_ENDED')
    expect((await failureOf(Promise.resolve(nested?.select().from(orders)))).code).toBe('ACKORD_SCOPE_ENDED')
  })

  it('rejects unsupported clients', () => {
    expect(() => fromDrizzle({} as Parameters<typeof fromDrizzle>[0])).toThrow(/fromDrizzle\(db\)\.transaction/)
    const mock = drizzle.mock()
    expect(() => fromDrizzle(mock as unknown as Parameters<typeof fromDrizzle>[0])).toThrow(/pg\.Pool/)
  })
})
