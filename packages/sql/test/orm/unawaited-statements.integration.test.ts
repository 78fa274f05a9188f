import { silentLogger } from '@ackord/core'
import { drizzle } from 'drizzle-orm/node-postgres'
import { pgTable, text } from 'drizzle-orm/pg-core'
import { Kysely, PostgresDialect } from 'kysely'
import { describe, expect, it } from 'vitest'
import { fromDrizzle, fromKysely } from '../../src/postgres/index.ts'
import { openSchema } from '../support/own-schema.ts'

const orders = pgTable('orders', { id: text().primaryKey(), note: text() })

/** Awaits more promises between two statements than an ORM with many layers of async functions does. */
async function throughPromises(): Promise<void> {
  for (let hop = 0; hop < 500; hop += 1) await undefined
}

async function throughTicks(): Promise<void> {
  for (let hop = 0; hop < 20; hop += 1) await new Promise<void>((resolve) => process.nextTick(resolve))
}

const layers = [
  ['many promises', throughPromises],
  ['process.nextTick', throughTicks],
] as const

describe('an un-awaited operation of several statements on an ORM', () => {
  for (const [title, between] of layers) {
    it(`is committed as a whole with ${title} between its statements, on Drizzle`, async () => {
      await using world = await openSchema()
      const pool = world.createPool({ max: 1 })
      const database = fromDrizzle(drizzle(pool, { schema: { orders } }), { schema: world.schema })
      let saving: Promise<void> | undefined
      await database.write(
        async (transaction) => {
          saving = (async () => {
            for (const id of ['1', '2', '3']) {
              await transaction.insert(orders).values({ id })
              await between()
            }
          })()
          saving.catch(() => {})
        },
        { logger: silentLogger },
      )
      await expect(saving).resolves.toBeUndefined()
      expect(await world.orders()).toBe(3)
      await pool.end()
    })

    it(`is committed as a whole with ${title} after a statement that the handler awaited, on Kysely`, async () => {
      await using world = await openSchema()
      const pool = world.createPool({ max: 1 })
      const db = new Kysely<{ orders: { id: string } }>({ dialect: new PostgresDialect({ pool }) })
      const database = fromKysely(db, { schema: world.schema })
      let saving: Promise<unknown> | undefined
      await database.write(
        async (transaction) => {
          const first = transaction.insertInto('orders').values({ id: '1' }).execute()
          saving = first.then(between).then(() => transaction.insertInto('orders').values({ id: '2' }).execute())
          saving.catch(() => {})
          await first
        },
        { logger: silentLogger },
      )
      await saving
      expect(await world.orders()).toBe(2)
      await db.destroy()
    })
  }
})
