import type { PoolConnection as MariadbConnection, Pool as MariadbPool } from 'mariadb'
import type { FieldPacket, Pool, PoolConnection, RowDataPacket } from 'mysql2/promise'
import { expectTypeOf, it } from 'vitest'
import { type Database, sqlOutbox } from '../../../src/index.ts'
import { fromMariadb, fromMysql2 } from '../../../src/mysql/index.ts'

declare const pool: Pool
declare const connection: PoolConnection
declare const mariadb: MariadbPool
declare const mariadbConnection: MariadbConnection

it('exposes the types of the user’s own client', () => {
  const database = fromMysql2(pool)
  expectTypeOf(database).toEqualTypeOf<Database<Pick<Pool, 'query' | 'execute'>>>()
  expectTypeOf(database.executor().query<RowDataPacket[]>('SELECT 1', [1])).toEqualTypeOf<Promise<[RowDataPacket[], FieldPacket[]]>>()
  expectTypeOf(fromMariadb(mariadb)).toEqualTypeOf<Database<Pick<MariadbPool, 'query' | 'execute' | 'batch'>>>()
})

it('accepts a client with a transaction of the user', () => {
  expectTypeOf(sqlOutbox(fromMysql2(pool)).append).toBeCallableWith(connection, [])
  expectTypeOf(sqlOutbox(fromMariadb(mariadb)).append).toBeCallableWith(mariadbConnection, [])
})
