import type { DatabaseSyncInstance } from '@photostructure/sqlite'
import type BetterSqlite3 from 'better-sqlite3'
import { expectTypeOf, it } from 'vitest'
import { type Database, sqlOutbox } from '../../../src/index.ts'
import { fromSqlite } from '../../../src/sqlite/index.ts'

declare const node: DatabaseSyncInstance
declare const better: BetterSqlite3.Database

it('exposes the types of the user’s own client', () => {
  const database = fromSqlite(node, { reader: node })
  expectTypeOf(database).toEqualTypeOf<Database<Pick<DatabaseSyncInstance, 'prepare' | 'exec'>>>()
  const other = fromSqlite(better, { reader: better })
  expectTypeOf(other).toEqualTypeOf<Database<Pick<BetterSqlite3.Database, 'prepare' | 'exec'>>>()
  expectTypeOf(other.executor().prepare<[string], { id: string }>('SELECT 1').get('1')).toEqualTypeOf<{ id: string } | undefined>()
})

it('accepts a client with a transaction of the user', () => {
  expectTypeOf(sqlOutbox(fromSqlite(node)).append).toBeCallableWith(node, [])
  expectTypeOf(sqlOutbox(fromSqlite(better)).append).toBeCallableWith(better, [])
})
