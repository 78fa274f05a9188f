import { checkFunction } from '@ackord/core/internal'
import type { Isolation } from '../contract/dialect.ts'
import type { Driver, StatementResult } from '../contract/driver.ts'
import { type CallbackDialect, callbackDriver, type RunTracked } from './callback-driver.ts'

/** The part of a `PrismaClient` that is used. */
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

/** The client that `$transaction()` passes to its callback; a `PrismaClient` can be used as one. */
export type PrismaTransaction<Client extends PrismaClientLike> = Parameters<Parameters<Client['$transaction']>[0]>[0]

/** The differences between databases under Prisma. */
export interface PrismaRules {
  /** Prisma returns either the rows or the number of changed rows. Whether a statement of the library returns rows that Prisma can read. */
  returnsRows(sql: string): boolean
  /** Converts parameters to the form that the driver adapter accepts. */
  values(parameters: readonly unknown[]): readonly unknown[]
  serverError(error: unknown): unknown
}

/** The maximum delay of a timer. */
const maxTimeout = 2 ** 31 - 1

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
      // The run-time shape, whatever the types say.
      root: prisma as unknown as PrismaHandle,
      begin(work, isolation) {
        const level = isolation === undefined ? {} : { isolationLevel: levels[isolation] }
        return prisma.$transaction(work, { maxWait: maxTimeout, timeout: maxTimeout, ...level }) as ReturnType<typeof work>
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
    if (!rules.returnsRows(sql)) return { rows: [], count: Number(await handle.$executeRawUnsafe(sql, ...values)) }
    // Rows are objects.
    const rows = (await handle.$queryRawUnsafe(sql, ...values)) as StatementResult['rows']
    return { rows, count: rows.length }
  } catch (error) {
    throw rules.serverError(error)
  }
}

/** The part of a Prisma client, the root or that of a transaction, that is used. */
interface PrismaHandle {
  $queryRawUnsafe(sql: string, ...parameters: unknown[]): PromiseLike<unknown>
  $executeRawUnsafe(sql: string, ...parameters: unknown[]): PromiseLike<unknown>
}

type Call = (...given: unknown[]) => unknown

/**
 * The same client with every operation tracked: its models, its raw queries, and nested transactions. As in Prisma, nothing is sent before an
 * operation is awaited.
 */
function trackedHandle(transaction: PrismaHandle, run: RunTracked): PrismaHandle {
  return new Proxy(transaction, {
    get(client, name) {
      const value: unknown = Reflect.get(client, name)
      if (name === '$transaction') return nested(client, value as Call, run)
      if (typeof name === 'string' && /^\$(?:query|execute)Raw/.test(name)) {
        return (...given: unknown[]) => trackedOperation((value as Call).apply(client, given), run, textOf(given[0]))
      }
      return isModel(name, value) ? trackedModel(value, run) : value
    },
  })
}

/** With a callback, its client is tracked. Operations in an array belong to a tracked client, and Prisma would not recognise them. */
function nested(client: PrismaHandle, begin: Call, run: RunTracked): Call {
  return async (work, ...options) => {
    await run.admitSavepoint()
    if (typeof work === 'function') return await begin.call(client, (inner: PrismaHandle) => work(trackedHandle(inner, run)), ...options)
    const results: unknown[] = []
    for (const operation of work as Iterable<PromiseLike<unknown>>) results.push(await operation)
    return results
  }
}

function trackedModel(model: object, run: RunTracked): object {
  return new Proxy(model, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name)
      return typeof value === 'function' ? (...given: unknown[]) => trackedOperation(value.apply(target, given), run) : value
    },
  })
}

/** An operation may have methods of its own, for relations of its result. */
function trackedOperation(operation: unknown, run: RunTracked, sql?: string | undefined): unknown {
  if (typeof operation !== 'object' || operation === null || !('then' in operation)) return operation
  let started: Promise<unknown> | undefined
  const start = () => {
    started ??= run(sql, async () => await operation)
    return started
  }
  return new Proxy(operation, {
    get(target, name) {
      if (name === 'then' || name === 'catch' || name === 'finally') {
        // Each is called with its own arguments.
        return (...given: unknown[]) => (start() as unknown as Record<typeof name, Call>)[name](...given)
      }
      const value: unknown = Reflect.get(target, name)
      return typeof value === 'function' ? (...given: unknown[]) => trackedOperation(value.apply(target, given), run) : value
    },
  })
}

function isModel(name: string | symbol, value: unknown): value is object {
  return typeof name === 'string' && /^[^$_]/.test(name) && typeof value === 'object' && value !== null
}

/** The text of a string, a template, or the result of `Prisma.sql`. */
function textOf(statement: unknown): string | undefined {
  if (typeof statement === 'string') return statement
  if (Array.isArray(statement)) return statement[0]
  return (statement as { readonly sql?: string } | undefined)?.sql
}

/** The server error as reported by a driver adapter. */
export interface AdapterCause {
  readonly originalCode: string
  readonly originalMessage?: string | undefined
}

/** Prisma wraps it in an error of its own; at COMMIT the adapter's error is not wrapped. */
export function adapterCause(error: unknown): AdapterCause | undefined {
  if (!(error instanceof Error)) return undefined
  const meta = 'meta' in error ? (error.meta as { readonly driverAdapterError?: unknown } | undefined) : undefined
  const adapterError = meta?.driverAdapterError ?? (error.name === 'DriverAdapterError' ? error : undefined)
  const cause = (adapterError as { readonly cause?: Partial<AdapterCause> } | undefined)?.cause
  return typeof cause?.originalCode === 'string' ? (cause as AdapterCause) : undefined
}

/** The code of an error created by Prisma. */
export function prismaCode(error: unknown): string | undefined {
  if (!(error instanceof Error) || !('clientVersion' in error) || !('code' in error)) return undefined
  return typeof error.code === 'string' && /^P\d{4}$/.test(error.code) ? error.code : undefined
}
