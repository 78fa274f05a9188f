import { type MySqlDatabase, mysqlTable, varchar } from 'drizzle-orm/mysql-core'
import type { MySql2Database } from 'drizzle-orm/mysql2'
import type { Knex } from 'knex'
import type { Kysely, Transaction } from 'kysely'
import type { DataSource, EntityManager } from 'typeorm'
import { expectTypeOf, it } from 'vitest'
import { type Database, sqlOutbox } from '../../../src/index.ts'
import { fromDrizzle, fromKnex, fromKysely, fromPrisma, fromTypeorm } from '../../../src/mysql/index.ts'
import type { Prisma, PrismaClient } from './prisma/generated/client.ts'

interface Tables {
  readonly orders: { readonly id: string; readonly note: string | null }
}

const orders = mysqlTable('orders', { id: varchar({ length: 36 }).primaryKey(), note: varchar({ length: 200 }) })
type Schema = { readonly orders: typeof orders }

declare const db: MySql2Database<Schema> & { $client: object }
declare const kysely: Kysely<Tables>
declare const kyselyTransaction: Transaction<Tables>
declare const knex: Knex
declare const knexTransaction: Knex.Transaction
declare const dataSource: DataSource
declare const prisma: PrismaClient

it('the handle of fromDrizzle() has the common type of a database and its transactions, with the schema', () => {
  const handle = fromDrizzle(db).executor()
  expectTypeOf(handle.select().from(orders)).resolves.toEqualTypeOf<{ id: string; note: string | null }[]>()
  expectTypeOf(handle.query.orders.findFirst()).resolves.toEqualTypeOf<{ id: string; note: string | null } | undefined>()
  // The type that repositories without support for transactions accept.
  // biome-ignore lint/suspicious/noExplicitAny: as Drizzle's own documentation does.
  expectTypeOf(handle).toExtend<MySqlDatabase<any, any, Schema>>()
  expectTypeOf(handle).not.toHaveProperty('rollback')
})

it('the handle of fromKysely() is a Kysely', () => {
  const database = fromKysely(kysely)
  expectTypeOf(database).toEqualTypeOf<Database<Kysely<Tables>>>()
  expectTypeOf(sqlOutbox(database).append).toBeCallableWith(kyselyTransaction, [])
})

it('the handle of fromKnex() is a Knex', () => {
  const database = fromKnex(knex)
  expectTypeOf(database).toEqualTypeOf<Database<Knex>>()
  expectTypeOf(sqlOutbox(database).append).toBeCallableWith(knexTransaction, [])
})

it('the handle of fromTypeorm() is an EntityManager', () => {
  expectTypeOf(fromTypeorm(dataSource)).toEqualTypeOf<Database<EntityManager>>()
})

it('the handle of fromPrisma() is the client of a transaction', () => {
  expectTypeOf(fromPrisma(prisma)).toEqualTypeOf<Database<Prisma.TransactionClient>>()
  expectTypeOf(prisma).toExtend<Prisma.TransactionClient>()
})
