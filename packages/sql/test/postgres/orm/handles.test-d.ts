import type { EntitySchema } from '@mikro-orm/core'
import type { EntityManager as MikroManager, MikroORM } from '@mikro-orm/postgresql'
import type { NodePgDatabase } from 'drizzle-orm/node-postgres'
import { type PgDatabase, pgTable, text } from 'drizzle-orm/pg-core'
import type { Knex } from 'knex'
import type { Kysely, Transaction } from 'kysely'
import type { PendingQuery, Row, Sql, TransactionSql } from 'postgres'
import type { Model, ModelStatic, Sequelize, Transaction as SequelizeTransaction } from 'sequelize'
import type { DataSource, EntityManager } from 'typeorm'
import { expectTypeOf, it } from 'vitest'
import { type Database, sqlOutbox } from '../../../src/index.ts'
import {
  fromDrizzle,
  fromKnex,
  fromKysely,
  fromMikroOrm,
  fromPostgres,
  fromPrisma,
  fromSequelize,
  fromTypeorm,
  type SequelizeHandle,
} from '../../../src/postgres/index.ts'
import type { Prisma, PrismaClient } from './prisma/generated/client.ts'

interface Tables {
  readonly orders: { readonly id: string; readonly note: string | null }
}

const orders = pgTable('orders', { id: text().primaryKey(), note: text() })
type Schema = { readonly orders: typeof orders }

declare const sql: Sql
declare const transactionSql: TransactionSql
declare const db: NodePgDatabase<Schema> & { $client: object }
declare const prisma: PrismaClient
declare const kysely: Kysely<Tables>
declare const kyselyTransaction: Transaction<Tables>
declare const knex: Knex
declare const knexTransaction: Knex.Transaction
declare const dataSource: DataSource
declare const sequelize: Sequelize
declare const sequelizeTransaction: SequelizeTransaction
declare const orderModel: ModelStatic<Model<{ id: string }, { id: string }>>
declare const orm: MikroORM
declare const orderEntity: EntitySchema<{ id: string; note: string | null }>

it('the handle of fromPostgres() has the common type of sql and of a transaction', () => {
  const database = fromPostgres(sql)
  expectTypeOf(database).toEqualTypeOf<Database<Sql | TransactionSql>>()
  const handle = database.executor()
  expectTypeOf(handle`SELECT ${1}`).toEqualTypeOf<PendingQuery<Row[]>>()
  expectTypeOf(handle<{ id: string }[]>`SELECT id FROM orders`).toEqualTypeOf<PendingQuery<{ id: string }[]>>()
  expectTypeOf(handle).not.toHaveProperty('begin')
  expectTypeOf(sqlOutbox(database).append).toBeCallableWith(transactionSql, [])
})

it('the handle of fromDrizzle() has the common type of a database and its transactions, with the schema', () => {
  const database = fromDrizzle(db)
  const handle = database.executor()
  expectTypeOf(handle.select().from(orders)).resolves.toEqualTypeOf<{ id: string; note: string | null }[]>()
  expectTypeOf(handle.query.orders.findFirst()).resolves.toEqualTypeOf<{ id: string; note: string | null } | undefined>()
  // The type that repositories without support for transactions accept.
  // biome-ignore lint/suspicious/noExplicitAny: as Drizzle's own documentation does.
  expectTypeOf(handle).toExtend<PgDatabase<any, Schema>>()
  expectTypeOf(handle).not.toHaveProperty('rollback')
})

it('the handle of fromKysely() is a Kysely', () => {
  const database = fromKysely(kysely)
  expectTypeOf(database).toEqualTypeOf<Database<Kysely<Tables>>>()
  expectTypeOf(sqlOutbox(database).append).toBeCallableWith(kyselyTransaction, [])
})

it('the handle of fromPrisma() is the client of a transaction', () => {
  const database = fromPrisma(prisma)
  expectTypeOf(database).toEqualTypeOf<Database<Prisma.TransactionClient>>()
  expectTypeOf(prisma).toExtend<Prisma.TransactionClient>()
})

it('the handle of fromKnex() is a Knex', () => {
  const database = fromKnex(knex)
  expectTypeOf(database).toEqualTypeOf<Database<Knex>>()
  expectTypeOf(sqlOutbox(database).append).toBeCallableWith(knexTransaction, [])
})

it('the handle of fromTypeorm() is an EntityManager', () => {
  expectTypeOf(fromTypeorm(dataSource)).toEqualTypeOf<Database<EntityManager>>()
})

it('the handle of fromSequelize() is spread into the options of a query', () => {
  const database = fromSequelize(sequelize)
  const handle = database.executor()
  expectTypeOf(handle).toEqualTypeOf<SequelizeHandle<Sequelize>>()
  expectTypeOf(handle.transaction).toEqualTypeOf<SequelizeTransaction | undefined>()
  expectTypeOf(orderModel.create).toBeCallableWith({ id: '1' }, { ...handle })
  expectTypeOf(orderModel.findAll).toBeCallableWith({ where: { id: '1' }, ...handle })
  expectTypeOf(sqlOutbox(database).append).toBeCallableWith({ transaction: sequelizeTransaction }, [])
})

it('the handle of fromMikroOrm() is an EntityManager', () => {
  const database = fromMikroOrm(orm)
  expectTypeOf(database).toEqualTypeOf<Database<typeof orm.em>>()
  // The type that repositories without support for transactions accept.
  expectTypeOf(database.executor()).toExtend<MikroManager>()
  expectTypeOf(database.executor().findOne(orderEntity, '1')).resolves.toExtend<{ id: string; note: string | null } | null>()
})
