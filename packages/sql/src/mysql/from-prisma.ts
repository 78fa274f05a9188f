import { checkNoMore } from '@ackord/core/internal'
import { Database } from '../database.ts'
import type { FromOptions } from '../from-options.ts'
import { type PrismaClientLike, type PrismaRules, type PrismaTransaction, prismaDriver } from '../orm/prisma.ts'
import { callbackDialect } from './callback-dialect.ts'
import { mysqlDialect } from './mysql-dialect.ts'
import { isPrismaConflict, serverError } from './prisma-error.ts'
import { isRead } from './refuse-control.ts'

/**
 * A database on Prisma 7, with `@prisma/adapter-mariadb`. Adapters get the client that transactions have; in one, every operation is
 * tracked. Prisma's own limits for transactions (2 s to begin, 5 s in all) are lifted: those of the router hold.
 */
export function fromPrisma<Client extends PrismaClientLike>(
  prisma: Client,
  options: FromOptions = {},
): Database<PrismaTransaction<Client>> {
  const { schema, names, order, ...unknown } = options
  checkNoMore('fromPrisma()', unknown)
  const dialect = { ...mysqlDialect, isConflict: isPrismaConflict }
  return new Database({ schema, names, order, dialect, driver: prismaDriver(prisma, callbackDialect('fromPrisma()'), rules) })
}

const rules: PrismaRules = { givesRows: isRead, values: (parameters) => parameters, serverError }
