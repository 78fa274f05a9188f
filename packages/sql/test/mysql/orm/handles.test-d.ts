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

it('gives what a database of Drizzle and a transaction on it share, with its schema', () => {
  const handle = fromDrizzle(db).executor()
  expectTypeOf(handle.select().from(orders)).resolves.toEqualTypeOf<{ id: string; note: string | null }[]>()
  expectTypeOf(handle.query.orders.findFirst()).resolves.toEqualTypeOf<{ id: string; note: string | null } | undefined>()
  // What repositories ask for that do not know about transactions.
  // biome-ignore lint/suspicious/noExplicitAny: as Drizzle's own documentation does.
  expectTypeOf(handle).toExtend<MySqlDatabase<any, any, Schema>>()
  expectTypeOf(handle).not.toHaveProperty('rollback')
})

it('gives a Kysely', () => {
  const database = fromKysely(kysely)
  expectTypeOf(database).toEqualTypeOf<Database<Kysely<Tables>>>()
  expectTypeOf(sqlOutbox(database).append).toBeCallableWith(kyselyTransaction, [])
})

it('gives a Knex', () => {
  const database = fromKnex(knex)
  expectTypeOf(database).toEqualTypeOf<Database<Knex>>()
  expectTypeOf(sqlOutbox(database).append).toBeCallableWith(knexTransaction, [])
})

it('gives an EntityManager', () => {
  expectTypeOf(fromTypeorm(dataSource)).toEqualTypeOf<Database<EntityManager>>()
})

it('gives the client that transactions of Prisma have', () => {
  expectTypeOf(fromPrisma(prisma)).toEqualTypeOf<Database<Prisma.TransactionClient>>()
  expectTypeOf(prisma).toExtend<Prisma.TransactionClient>()
})
