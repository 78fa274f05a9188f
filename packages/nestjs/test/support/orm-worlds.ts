import type { Database } from '@ackord/sql'
import { fromDrizzle, fromKnex, fromKysely, fromMikroOrm, fromPrisma, fromTypeorm } from '@ackord/sql/postgres'
import { EntitySchema as MikroSchema } from '@mikro-orm/core'
import { MikroORM } from '@mikro-orm/postgresql'
import { PrismaPg } from '@prisma/adapter-pg'
import { drizzle } from 'drizzle-orm/node-postgres'
import { pgTable, text } from 'drizzle-orm/pg-core'
import createKnex from 'knex'
import { Kysely, PostgresDialect } from 'kysely'
import { DataSource, EntitySchema } from 'typeorm'
import { PrismaClient } from '../../../sql/test/postgres/orm/prisma/generated/client.ts'
import { type OwnSchema, openSchema, postgresUrl, startOptions } from '../../../sql/test/support/own-schema.ts'

/** A database on PostgreSQL through an ORM, with a table of orders. */
export interface OrmWorld<Handle> extends OwnSchema {
  readonly database: Database<Handle>
  /** Stores an order as a service with this ORM does. */
  insert(handle: Handle, id: string): Promise<unknown>
}

type OpenOrm<Handle> = () => Promise<OrmWorld<Handle>>

interface Order {
  id: string
}

async function openWith<Handle>(
  connect: (own: OwnSchema) => Promise<{ readonly database: Database<Handle>; close(): unknown }>,
  insert: OrmWorld<Handle>['insert'],
): Promise<OrmWorld<Handle>> {
  const own = await openSchema()
  const { database, close } = await connect(own)
  await own.createTables(database)
  return {
    ...own,
    database,
    insert,
    async [Symbol.asyncDispose]() {
      await close()
      await own[Symbol.asyncDispose]()
    },
  }
}

const typeormOrders = new EntitySchema<Order>({ name: 'Order', tableName: 'orders', columns: { id: { type: 'text', primary: true } } })

export const openTypeorm = () =>
  openWith(
    async ({ schema }) => {
      const extra = { max: 4, options: startOptions(schema) }
      const entities = [typeormOrders]
      const dataSource = new DataSource({
        type: 'postgres',
        url: postgresUrl,
        extra,
        schema,
        entities,
        logging: false,
        nativeDriver: false,
      })
      await dataSource.initialize()
      return { database: fromTypeorm(dataSource, { schema }), close: () => dataSource.destroy() }
    },
    (manager, id) => manager.insert(typeormOrders, { id }),
  )

const drizzleOrders = pgTable('orders', { id: text().primaryKey() })

export const openDrizzle = () =>
  openWith(
    async ({ schema, createPool }) => {
      const pool = createPool()
      return { database: fromDrizzle(drizzle(pool), { schema }), close: () => pool.end() }
    },
    (db, id) => db.insert(drizzleOrders).values({ id }),
  )

const openKnex = () =>
  openWith(
    async ({ schema }) => {
      const connection = { connectionString: postgresUrl, application_name: schema }
      const knex = createKnex({ client: 'pg', connection, searchPath: schema, pool: { min: 0, max: 4 } })
      return { database: fromKnex(knex, { schema }), close: () => knex.destroy() }
    },
    async (knex, id) => await knex('orders').insert({ id }),
  )

const openKysely = () =>
  openWith(
    async ({ schema, createPool }) => {
      const db = new Kysely<{ orders: Order }>({ dialect: new PostgresDialect({ pool: createPool() }) })
      return { database: fromKysely(db, { schema }), close: () => db.destroy() }
    },
    (db, id) => db.insertInto('orders').values({ id }).execute(),
  )

const mikroOrders = new MikroSchema<Order>({ name: 'Order', tableName: 'orders', properties: { id: { type: 'text', primary: true } } })

const openMikroOrm = () =>
  openWith(
    async ({ schema }) => {
      const driverOptions = { connection: { options: startOptions(schema) } }
      const orm = await MikroORM.init({ clientUrl: postgresUrl, schema, entities: [mikroOrders], pool: { min: 0, max: 4 }, driverOptions })
      return { database: fromMikroOrm(orm, { schema }), close: () => orm.close() }
    },
    async (manager, id) => {
      manager.create(mikroOrders, { id }, { persist: true })
      await manager.flush()
    },
  )

const openPrisma = () =>
  openWith(
    async ({ schema }) => {
      const pool = { connectionString: postgresUrl, max: 4, options: startOptions(schema) }
      const prisma = new PrismaClient({ adapter: new PrismaPg(pool, { schema }), errorFormat: 'minimal' })
      return { database: fromPrisma(prisma, { schema }), close: () => prisma.$disconnect() }
    },
    (prisma, id) => prisma.order.create({ data: { id } }),
  )

/** Calls `test` for each ORM, with its own type of handles. */
export function onEachOrm(test: <Handle>(name: string, open: OpenOrm<Handle>) => void): void {
  test('TypeORM', openTypeorm)
  test('Drizzle', openDrizzle)
  test('Prisma', openPrisma)
  test('MikroORM', openMikroOrm)
  test('Knex', openKnex)
  test('Kysely', openKysely)
}
