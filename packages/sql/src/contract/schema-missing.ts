import { SchemaError } from '../errors.ts'
import type { Dialect } from './dialect.ts'

/** Returns the error, or for missing tables one that says how to create them. */
export function explainMissing(dialect: Dialect, error: unknown, table: string): unknown {
  if (!dialect.isSchemaMissing(error)) return error
  const invisible = dialect.mayBeInvisible?.(table) === true ? invisibleText : ''
  const text = `The table ${table} does not exist, or lacks a column. Run createSchema(database) when you deploy.${invisible}`
  return new SchemaError('missing', text, { cause: error })
}

const invisibleText =
  ' If the tables exist, check the search_path of the transaction: a handler may have changed it. The option `schema` makes the names independent of it.'
