import { checkNoMore } from '@ackord/core/internal'
import { Database } from '../database.ts'
import { type PrismaClientLike, type PrismaRules, type PrismaTransaction, prismaDriver } from '../orm/prisma.ts'
import { withArrayLiterals } from './array-literal.ts'
import { callbackDialect } from './callback-dialect.ts'
import { postgresDialect } from './postgres-dialect.ts'
import type { PostgresOptions } from './postgres-options.ts'
import { isPrismaConflict, serverError } from './prisma-error.ts'

/**
 * A database on Prisma 7, with a driver adapter for PostgreSQL. Adapters get the client that transactions have; in one, every operation is
 * tracked. Prisma's own limits for transactions (2 s to begin, 5 s in all) are lifted: those of the router hold.
 */
export function fromPrisma<Client extends PrismaClientLike>(
  prisma: Client,
  options: PostgresOptions = {},
): Database<PrismaTransaction<Client>> {
  const { schema, names, order, notify, ...unknown } = options
  checkNoMore('fromPrisma()', unknown)
  const dialect = { ...postgresDialect, isConflict: isPrismaConflict }
  return new Database({ schema, names, order, notify, dialect, driver: prismaDriver(prisma, callbackDialect, rules) })
}

/** The type of what a lock gives is one that Prisma cannot read. A function that is made gives nothing, whatever is in it. */
const givesRows = /^\s*(?:select\b(?!\s+pg_advisory)|with\b|(?:insert|update|delete)\b.*\breturning\b)/is

const rules: PrismaRules = { givesRows: (sql) => givesRows.test(sql), values: withArrayLiterals, serverError }
