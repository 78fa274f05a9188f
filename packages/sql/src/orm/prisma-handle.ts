import type { RunTracked } from './callback-driver.ts'

/** What is used of a client of Prisma, be it the root or that of a transaction. */
export interface PrismaHandle {
  $queryRawUnsafe(sql: string, ...parameters: unknown[]): PromiseLike<unknown>
  $executeRawUnsafe(sql: string, ...parameters: unknown[]): PromiseLike<unknown>
}

type Call = (...given: unknown[]) => unknown

/**
 * The same client with every operation tracked: its models, its raw queries, and transactions inside of it. Nothing is sent before somebody
 * waits for an operation, as Prisma has it.
 */
export function trackedHandle(transaction: PrismaHandle, run: RunTracked): PrismaHandle {
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

/** With a callback, its client is tracked. Operations in an array are those of a tracked client, and Prisma would not know them. */
function nested(client: PrismaHandle, begin: Call, run: RunTracked): Call {
  return async (work, ...options) => {
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

/** An operation may have methods of its own, for what is related to its result. */
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
        // Each of them is called with what it takes.
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

/** Of a text, a template, or what `Prisma.sql` makes. */
function textOf(statement: unknown): string | undefined {
  if (typeof statement === 'string') return statement
  if (Array.isArray(statement)) return statement[0]
  return (statement as { readonly sql?: string } | undefined)?.sql
}
