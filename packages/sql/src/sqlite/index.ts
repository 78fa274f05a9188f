export type { FromSqliteOptions } from './from-sqlite.ts'
export { fromSqlite } from './from-sqlite.ts'
export type { SqliteClient, SqliteStatement } from './sqlite-client.ts'
