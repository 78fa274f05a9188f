import type { Dialect } from './dialect.ts'
import { SchemaError } from './errors.ts'

/** The error, or one that says what to do about tables that are not there. */
export function explainMissing(dialect: Dialect, error: unknown, table: string): unknown {
  if (!dialect.isSchemaMissing(error)) return error
  return new SchemaError('missing', `The table ${table} does not exist, or lacks a column. Run createSchema(database) when you deploy.`, {
    cause: error,
  })
}
