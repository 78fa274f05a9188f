export type { SqliteClient, SqliteStatement } from './client/client.ts'
export type { FromSqliteOptions, SqliteDatabase } from './client/from-sqlite.ts'
export { fromSqlite } from './client/from-sqlite.ts'
