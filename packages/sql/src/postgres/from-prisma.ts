import { checkFunction, checkNoMore } from '@ackord/core/internal'
import { Database } from '../database.ts'
import type { Driver, StatementResult } from '../driver.ts'
import type { TableOptions } from '../tables.ts'
import { withArrayLiterals } from './array-literal.ts'
import { callbackDriver } from './callback-driver.ts'
import { postgresDialect } from './postgres-dialect.ts'
import { isPrismaConflict, serverError } from './prisma-error.ts'
import { type PrismaHandle, trackedHandle } from './prisma-handle.ts'

/** What is used of a `PrismaClient`. */
export interface PrismaClientLike {
  // biome-ignore lint/suspicious/noExplicitAny: the type of its transaction is found by inference.
  $transaction(work: (transaction: any) => Promise<any>, options?: { maxWait?: number; timeout?: number }): Promise<unknown>
  $queryRawUnsafe(sql: string, ...parameters: never[]): unknown
  $executeRawUnsafe(sql: string, ...parameters: never[]): unknown
}

/** The client that `$transaction()` gives to its callback, which a `PrismaClient` can be used as. */
export type PrismaTransaction<Client extends PrismaClientLike> = Parameters<Parameters<Client['$transaction']>[0]>[0]

/** The most that a timer can wait. */
const longest = 2 ** 31 - 1

/**
 * A database on Prisma 7, with a driver adapter for PostgreSQL. Adapters get the client that transactions have; in one, every operation is
 * tracked. Prisma's own limits for transactions (2 s to begin, 5 s in all) are lifted: those of the router hold.
 */
export function fromPrisma<Client extends PrismaClientLike>(
  prisma: Client,
  options: TableOptions = {},
): Database<PrismaTransaction<Client>> {
  const { schema, names, ...unknown } = options
  checkNoMore('fromPrisma()', unknown)
  checkFunction('fromPrisma(prisma).$transaction', prisma?.$transaction)
  checkFunction('fromPrisma(prisma).$queryRawUnsafe', prisma.$queryRawUnsafe)
  const driver = callbackDriver<PrismaHandle>({
    // What is there at run time, whatever the types say.
    root: prisma as unknown as PrismaHandle,
    begin: (work) => prisma.$transaction(work, { maxWait: longest, timeout: longest }) as ReturnType<typeof work>,
    run,
    track: trackedHandle,
    reentrant: true,
    // A client with extensions looks like a transaction: only the server knows.
    inTransaction: () => undefined,
    serverError,
  })
  const dialect = { ...postgresDialect, isConflict: isPrismaConflict }
  return new Database({ schema, names, dialect, driver: driver as unknown as Driver<PrismaTransaction<Client>> })
}

/** Prisma tells either the rows or how many were changed. The type of what a lock gives is one that it cannot read. */
const givesRows = /^\s*(?:select\b(?!\s+pg_advisory)|with\b)|\breturning\b/i

async function run(handle: PrismaHandle, sql: string, parameters: readonly unknown[]): Promise<StatementResult> {
  const values = withArrayLiterals(parameters)
  try {
    if (!givesRows.test(sql)) return { rows: [], count: Number(await handle.$executeRawUnsafe(sql, ...values)) }
    // Rows are objects.
    const rows = (await handle.$queryRawUnsafe(sql, ...values)) as StatementResult['rows']
    return { rows, count: rows.length }
  } catch (error) {
    throw serverError(error)
  }
}
