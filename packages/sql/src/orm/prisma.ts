import { checkFunction } from '@ackord/core/internal'
import type { Isolation } from '../dialect.ts'
import type { Driver, StatementResult } from '../driver.ts'
import type { CallbackDialect } from './callback-dialect.ts'
import { callbackDriver } from './callback-driver.ts'
import { type PrismaHandle, trackedHandle } from './prisma-handle.ts'

/** What is used of a `PrismaClient`. */
export interface PrismaClientLike {
  $transaction(
    // biome-ignore lint/suspicious/noExplicitAny: the type of its transaction is found by inference.
    work: (transaction: any) => Promise<any>,
    // biome-ignore lint/suspicious/noExplicitAny: the levels are those of the generated client.
    options?: { maxWait?: number; timeout?: number; isolationLevel?: any },
  ): Promise<unknown>
  $queryRawUnsafe(sql: string, ...parameters: never[]): unknown
  $executeRawUnsafe(sql: string, ...parameters: never[]): unknown
}

/** The client that `$transaction()` gives to its callback, which a `PrismaClient` can be used as. */
export type PrismaTransaction<Client extends PrismaClientLike> = Parameters<Parameters<Client['$transaction']>[0]>[0]

/** What differs between databases under Prisma. */
export interface PrismaRules {
  /** Prisma tells either the rows or how many were changed. Whether a statement of ours gives rows that it can read. */
  givesRows(sql: string): boolean
  /** Parameters of ours as the driver adapter takes them. */
  values(parameters: readonly unknown[]): readonly unknown[]
  serverError(error: unknown): unknown
}

/** The most that a timer can wait. */
const longest = 2 ** 31 - 1

const levels: Record<Isolation, string> = {
  'read committed': 'ReadCommitted',
  'repeatable read': 'RepeatableRead',
  serializable: 'Serializable',
}

/** A driver on Prisma. */
export function prismaDriver<Client extends PrismaClientLike>(
  prisma: Client,
  dialect: CallbackDialect,
  rules: PrismaRules,
): Driver<PrismaTransaction<Client>> {
  checkFunction('fromPrisma(prisma).$transaction', prisma?.$transaction)
  checkFunction('fromPrisma(prisma).$queryRawUnsafe', prisma.$queryRawUnsafe)
  const { serverError } = rules
  const driver = callbackDriver<PrismaHandle>(
    {
      // What is there at run time, whatever the types say.
      root: prisma as unknown as PrismaHandle,
      begin(work, isolation) {
        const level = isolation === undefined ? {} : { isolationLevel: levels[isolation] }
        return prisma.$transaction(work, { maxWait: longest, timeout: longest, ...level }) as ReturnType<typeof work>
      },
      run: (handle, sql, parameters) => run(handle, sql, parameters, rules),
      track: trackedHandle,
      reentrant: true,
      // A client with extensions looks like a transaction: only the server knows.
      inTransaction: () => undefined,
      serverError,
    },
    dialect,
  )
  return driver as unknown as Driver<PrismaTransaction<Client>>
}

async function run(handle: PrismaHandle, sql: string, parameters: readonly unknown[], rules: PrismaRules): Promise<StatementResult> {
  const values = rules.values(parameters)
  try {
    if (!rules.givesRows(sql)) return { rows: [], count: Number(await handle.$executeRawUnsafe(sql, ...values)) }
    // Rows are objects.
    const rows = (await handle.$queryRawUnsafe(sql, ...values)) as StatementResult['rows']
    return { rows, count: rows.length }
  } catch (error) {
    throw rules.serverError(error)
  }
}
