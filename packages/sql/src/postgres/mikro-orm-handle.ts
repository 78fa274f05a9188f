import { AckordError } from '@ackord/core'
import type { Lane } from '../lane.ts'
import type { RunTracked } from '../orm/callback-driver.ts'
import type { UnitOfWork } from './flushing-driver.ts'

/** What is used of an `EntityManager`, beyond what its types show. */
export interface MikroManager {
  driver: MikroDriver
  fork(options: { readonly keepTransactionContext?: boolean; readonly disableContextResolution?: boolean }): MikroManager
  getConnection(type: 'write'): MikroConnection
  isInTransaction(): boolean
  /** A transaction of Knex. */
  getTransactionContext(): object | undefined
  begin(): Promise<void>
  commit(): Promise<void>
  rollback(): Promise<void>
  flush(): Promise<void>
  getUnitOfWork(): MikroUnitOfWork
}

interface MikroUnitOfWork {
  computeChangeSets(): void
  getChangeSets(): readonly unknown[]
  getCollectionUpdates(): readonly unknown[]
  getExtraUpdates(): ReadonlySet<unknown>
}

/** What makes queries for all managers. */
interface MikroDriver {
  readonly connection: MikroConnection
  getConnection(type?: string): MikroConnection
}

/** What sends them: a pool, with the transaction among the arguments. */
export interface MikroConnection {
  execute(query: unknown, parameters?: unknown, method?: string, transaction?: object, ...more: unknown[]): Promise<unknown>
  transactional(work: (transaction: object) => Promise<unknown>, options?: { readonly ctx?: object | undefined }): Promise<unknown>
  /** What MikroORM 6 is built on. */
  getKnex(): object
}

/** A manager in a transaction of ours, with every query tracked. */
export interface TrackedManager extends UnitOfWork {
  readonly manager: MikroManager
}

/** A manager of its own in the same transaction, with an identity map of its own. Queries go through the lane one after the other. */
export function trackedManager(transaction: MikroManager, lane: Lane, run: RunTracked): TrackedManager {
  let flushing = false
  const inTurn: RunTracked = (sql, start) => {
    const send: typeof start = (admit) => lane.run(() => start(admit))
    // The scope has ended by then, and what is sent is what was left in it.
    return flushing ? send(() => {}) : run(sql, send)
  }
  // A fork takes the driver over, and hands it on to those that MikroORM makes of it.
  const lender = transaction.fork({ keepTransactionContext: true })
  lender.driver = trackedDriver(transaction, run, inTurn)
  const manager = lender.fork({ keepTransactionContext: true })
  return {
    manager,
    changed() {
      const unit = manager.getUnitOfWork()
      unit.computeChangeSets()
      return unit.getChangeSets().length + unit.getCollectionUpdates().length + unit.getExtraUpdates().size > 0
    },
    async flush() {
      flushing = true
      try {
        await manager.flush()
      } finally {
        flushing = false
      }
    },
  }
}

/** The same driver on connections that are tracked, for queries in this transaction and those nested in it. Others are let through. */
function trackedDriver(transaction: MikroManager, run: RunTracked, inTurn: RunTracked): MikroDriver {
  const { driver } = transaction
  // A transaction has one.
  const inside = new WeakSet([transaction.getTransactionContext() as object])
  const isInside = (context: object | undefined) => context !== undefined && inside.has(context)

  function tracked(connection: MikroConnection): MikroConnection {
    const execute: MikroConnection['execute'] = (query, parameters, method, context, ...more) => {
      const send = () => connection.execute(query, parameters, method, context, ...more)
      return isInside(context) ? sendTracked(query, send, inTurn) : send()
    }
    const transactional: MikroConnection['transactional'] = (work, options) => {
      if (!isInside(options?.ctx)) return connection.transactional(work, options)
      const workNested = (nested: object) => {
        inside.add(nested)
        return work(nested)
      }
      // As a whole: what nobody awaited is to be undone before the end, if it must be.
      return run(undefined, () => connection.transactional(workNested, options))
    }
    const replaced: Record<string | symbol, unknown> = { execute, transactional, begin: refuse, commit: refuse, rollback: refuse }
    return new Proxy(connection, {
      get(target, name) {
        if (Object.hasOwn(replaced, name)) return replaced[name]
        const value: unknown = Reflect.get(target, name)
        return typeof value === 'function' ? value.bind(target) : value
      },
    })
  }

  return Object.create(driver, {
    connection: { value: tracked(driver.connection) },
    getConnection: { value: (type?: string) => tracked(driver.getConnection(type)) },
  })
}

/** MikroORM copies an error into one of its own. What is refused is made the cause, which stays what it is. */
async function sendTracked(query: unknown, send: () => Promise<unknown>, inTurn: RunTracked): Promise<unknown> {
  let sent = false
  try {
    return await inTurn(textOf(query), () => {
      sent = true
      return send()
    })
  } catch (error) {
    if (sent || error instanceof AckordError) throw error
    throw new Error('The query was not sent: its transaction is rolled back.', { cause: error })
  }
}

/** Of a text, or of what `raw()` makes. */
function textOf(query: unknown): unknown {
  return typeof query === 'object' && query !== null && 'sql' in query ? query.sql : query
}

async function refuse(): Promise<never> {
  throw new AckordError(
    'ACKORD_TRANSACTION_REQUIRED',
    'The middleware begins, commits and rolls back. Throw to roll back; use em.transactional() for a part of it.',
  )
}
