export { cleanInbox } from '../clean-inbox.ts'
export { createSchema, printSchema as schemaSql, validateSchema } from '../schema.ts'
export type { SqlOutbox as PostgresOutbox } from '../sql-outbox.ts'
// Until all callers have moved.
export { sqlOutbox as postgresOutbox } from '../sql-outbox.ts'
export type { FromPgOptions, PgPool } from './from-pg.ts'
export { fromPg } from './from-pg.ts'
export type { PgliteClient } from './from-pglite.ts'
export { fromPglite } from './from-pglite.ts'
