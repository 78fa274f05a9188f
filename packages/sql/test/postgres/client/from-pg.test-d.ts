import type { PGlite } from '@electric-sql/pglite'
import type { Pool, PoolClient, QueryResult } from 'pg'
import { expectTypeOf, it } from 'vitest'
import { type Database, sqlOutbox } from '../../../src/index.ts'
import { fromPg, fromPglite } from '../../../src/postgres/index.ts'

declare const pool: Pool
declare const client: PoolClient
declare const pglite: PGlite

it('exposes the types of the user’s own client', () => {
  const database = fromPg(pool)
  expectTypeOf(database).toEqualTypeOf<Database<Pick<Pool, 'query'>>>()
  expectTypeOf(database.executor().query<{ id: string }>('SELECT 1', [1])).toEqualTypeOf<Promise<QueryResult<{ id: string }>>>()
  expectTypeOf(database.transaction()).toEqualTypeOf<Pick<Pool, 'query'> | undefined>()
  expectTypeOf(fromPglite(pglite)).toEqualTypeOf<Database<Pick<PGlite, 'query' | 'sql' | 'exec'>>>()
})

it('accepts a client with a transaction of the user', () => {
  expectTypeOf(sqlOutbox(fromPg(pool)).append).toBeCallableWith(client, [])
})
