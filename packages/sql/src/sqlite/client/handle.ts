import { AckordError } from '@ackord/core'
import type { QueryTracker } from '../../contract/query-tracker.ts'
import { sqliteCodeOf } from '../errors.ts'
import { isSavepoint, refuseControl } from '../transaction-control.ts'
import type { SqliteClient, SqliteHandle, SqliteStatement } from './client.ts'

/** A statement while a transaction uses it. */
export interface BorrowedStatement {
  readonly statement: SqliteStatement
  /** Must be called with the name of every method that is used. */
  used(name: unknown): void
  failed(): void
}

/** Runs code that uses the connection, or throws if it must not. */
type Guard = <T>(use: () => T) => T

/** Iterations that have not ended: they keep their connection busy. Hardly any transaction has one. */
export class Iterations {
  #open: Set<Iterator<unknown>> | undefined

  add(iterator: Iterator<unknown>): void {
    this.#open ??= new Set()
    this.#open.add(iterator)
  }

  delete(iterator: Iterator<unknown>): void {
    this.#open?.delete(iterator)
  }

  has(iterator: Iterator<unknown>): boolean {
    return this.#open?.has(iterator) ?? false
  }

  endAll(): void {
    if (this.#open === undefined) return
    for (const iterator of this.#open) {
      try {
        iterator.return?.()
      } catch {
        // Its connection was closed.
      }
    }
    this.#open.clear()
  }
}

export interface TrackedHandleOptions {
  readonly guard: Guard
  readonly iterations: Iterations
  readonly tracker: QueryTracker
  /** Returns a prepared statement for the duration of the transaction. */
  readonly borrow: (sql: string) => BorrowedStatement
}

/** `prepare` and `exec` of a transaction, with statements that work until it ends. */
export function trackedHandle(client: SqliteClient, { guard, iterations, tracker, borrow }: TrackedHandleOptions): SqliteHandle {
  return guardedHandle(
    client,
    iterations,
    function whileOpen(use) {
      tracker.checkOpen()
      try {
        return guard(use)
      } catch (error) {
        tracker.failure = error
        throw error
      }
    },
    { borrow, tracker },
  )
}

/** State of handles inside of a transaction. */
interface TransactionUse {
  readonly borrow: (sql: string) => BorrowedStatement
  readonly tracker: QueryTracker
}

/** The handle outside of transactions: the reader, or none. */
export function outsideHandle(readerOf: () => SqliteClient | undefined): SqliteHandle {
  const handleOf = () => {
    const reader = readerOf()
    if (reader === undefined) {
      throw outside('Read and write with database.write(), or pass fromSqlite() a reader to read outside of transactions.')
    }
    return guardedHandle(reader, new Iterations(), function readOnly(use) {
      try {
        return use()
      } catch (error) {
        if (sqliteCodeOf(error) !== 'READONLY') throw error
        throw outside('The reader cannot write: use database.write().', error)
      }
    })
  }
  return {
    prepare: (...given) => handleOf().prepare(...given),
    exec: (...given) => handleOf().exec(...given),
  }
}

function guardedHandle(client: SqliteClient, iterations: Iterations, guard: Guard, inside?: TransactionUse): SqliteHandle {
  const handle: SqliteHandle = {
    prepare(...given) {
      const [sql] = given
      refuseControl(sql)
      const guardRun = inside !== undefined && isSavepoint(sql) ? guardedSavepoint(guard, inside.tracker) : guard
      // Options, which newer clients accept, are passed to the statement.
      if (inside === undefined || given.length !== 1) {
        return guardedStatement({ statement: guard(() => client.prepare(...given)), used() {}, failed() {} }, iterations, guardRun)
      }
      return guardedStatement(
        guard(() => inside.borrow(sql)),
        iterations,
        guardRun,
      )
    },
    exec(...given) {
      refuseControl(given[0], inside?.tracker)
      const result = guard(() => client.exec(...given))
      return result === client ? handle : result
    },
  }
  return handle
}

/** A prepared statement may be run long after it was created, and more than once. */
function guardedSavepoint(guard: Guard, tracker: QueryTracker): Guard {
  return (use) => {
    void tracker.admitSavepoint()
    return guard(use)
  }
}

/** The user's own type of statement, with all of its features. */
function guardedStatement(borrowed: BorrowedStatement, iterations: Iterations, guard: Guard): SqliteStatement {
  const traps = new StatementTraps(borrowed, iterations, guard)
  traps.guarded = new Proxy(borrowed.statement, traps)
  return traps.guarded
}

/** A class, because one is created per message and statement. */
class StatementTraps implements ProxyHandler<SqliteStatement> {
  readonly #borrowed: BorrowedStatement
  readonly #iterations: Iterations
  readonly #guard: Guard
  guarded: SqliteStatement | undefined

  constructor(borrowed: BorrowedStatement, iterations: Iterations, guard: Guard) {
    this.#borrowed = borrowed
    this.#iterations = iterations
    this.#guard = guard
  }

  get(target: SqliteStatement, name: string | symbol): unknown {
    const value: unknown = Reflect.get(target, name, target)
    if (typeof value !== 'function') return value
    return (...given: unknown[]) => this.#call(target, name, value, given)
  }

  set(target: SqliteStatement, name: string | symbol, value: unknown): boolean {
    this.#borrowed.failed()
    return Reflect.set(target, name, value, target)
  }

  // biome-ignore lint/complexity/noBannedTypes: whatever the statement has.
  #call(target: SqliteStatement, name: string | symbol, method: Function, given: readonly unknown[]): unknown {
    this.#borrowed.used(name)
    let result: unknown
    try {
      result = this.#guard(() => method.apply(target, given))
    } catch (error) {
      this.#borrowed.failed()
      throw error
    }
    // Settings such as pluck() return the statement.
    if (result === target) return this.guarded
    return name === 'iterate' ? guardedIteration(result as Iterator<unknown>, this.#iterations, this.#guard) : result
  }
}

function guardedIteration(iterator: Iterator<unknown>, iterations: Iterations, guard: Guard): IterableIterator<unknown> {
  iterations.add(iterator)
  return {
    next() {
      const step = guard(() => iterator.next())
      if (step.done === true) iterations.delete(iterator)
      return step
    },
    return(value) {
      // After the end of a transaction, its statement may be used by another one.
      if (!iterations.has(iterator)) return { done: true, value }
      iterations.delete(iterator)
      return iterator.return?.() ?? { done: true, value }
    },
    [Symbol.iterator]() {
      return this
    },
  }
}

function outside(what: string, cause?: unknown): AckordError {
  return new AckordError(
    'ACKORD_TRANSACTION_REQUIRED',
    `SQLite has one writer, and a statement outside of a transaction would slip into that of a message. ${what}`,
    { cause },
  )
}
