import { silentLogger } from '@ackord/core'
import { eq, sql } from 'drizzle-orm'
import { mysqlTable, varchar } from 'drizzle-orm/mysql-core'
import { drizzle } from 'drizzle-orm/mysql2'
import { createConnection } from 'mysql2'
import { createPool } from 'mysql2/promise'
import { describe, expect, it } from 'vitest'
import { depthOfOtherClients } from '../../../../../scripts/test-depth.mjs'
import { transactionMiddleware } from '../../../src/index.ts'
import { fromDrizzle } from '../../../src/mysql/index.ts'
import { failureOf, handle } from '../../support/world.ts'
import { type OpenOptions, testMysqlAdapter } from '../support/mysql-adapter.ts'
import { testMysqlConformance } from '../support/mysql-conformance.ts'
import { openDoor, poolOptions } from '../support/mysql-world.ts'

const orders = mysqlTable('orders', { id: varchar({ length: 200 }).primaryKey(), note: varchar({ length: 200 }) })
const settings = { logger: silentLogger }

async function openDrizzle({ max = 10, port, restricted = false }: OpenOptions = {}) {
  const door = await openDoor({ client: 'Drizzle', restricted })
  const pool = createPool({ ...poolOptions(door.schema, max, door.server), ...(port !== undefined && { port }) })
  const db = drizzle({ client: pool, schema: { orders }, mode: 'default' })
  const database = fromDrizzle(db, { schema: door.schema })
  type Handle = ReturnType<typeof database.executor>
  await door.createTables(database)
  return {
    ...door,
    db,
    database,
    root: db as Handle,
    begin: (work: (transaction: Handle) => Promise<void>) => db.transaction(work),
    async run(handle: Handle, statement: string, parameters: unknown[]) {
      const [first = '', ...rest] = statement.split('?')
      const chunks = rest.map((chunk, index) => sql`${parameters[index]}${sql.raw(chunk)}`)
      const [rows] = await handle.execute(sql.join([sql.raw(first), ...chunks]))
      return rows as unknown as Record<string, unknown>[]
    },
    async [Symbol.asyncDispose]() {
      await pool.end()
      await door.close()
    },
  }
}

type Handle = ReturnType<Awaited<ReturnType<typeof openDrizzle>>['database']['executor']>

// The complete suites run on mysql2 by default; on this client they run only in `make proof`.
testMysqlConformance('Drizzle', openDrizzle, (world, handle: Handle, text, values) => world.run(handle, text, values), depthOfOtherClients)
testMysqlAdapter('Drizzle', openDrizzle)

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
    let prepared: { execute(values: { id: string }): Promise<unknown> } | undefined
    let nested: Handle | undefined
    await world.database.write(async (transaction) => {
      prepared = transaction
        .insert(orders)
        .values({ id: sql.placeholder('id') })
        .prepare()
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

  it('rejects unsupported clients', async () => {
    expect(() => fromDrizzle({} as Parameters<typeof fromDrizzle>[0])).toThrow(/fromDrizzle\(db\)\.transaction/)
    const { connectionLimit: _, ...server } = poolOptions('test', 1)
    const connection = createConnection(server)
    // On a single connection, the transactions of several messages would be one transaction.
    expect(() => fromDrizzle(drizzle({ client: connection }))).toThrow(/pool of mysql2/)
    await new Promise((resolve) => connection.end(resolve))
  })
})
