import {
  type Backoff,
  type Context,
  type ContextKey,
  contextKey,
  currentContext,
  enter,
  exponentialBackoff,
  isAckordError,
  type Logger,
  type Message,
  type Metrics,
  type Middleware,
  middleware,
  type Process,
  type Runtime,
  rootContext,
  systemRuntime,
  TransactionRequiredError,
  toError,
} from '@ackord/core'
import {
  causesOf,
  checkCount,
  checkDuration,
  checkFunction,
  describeMessage,
  describeValue,
  isRetryable,
  PartPorts,
  passPorts,
  rejectUnknownOptions,
} from '@ackord/core/internal'
import { TenantUnavailableError, TenantUnknownError } from '../errors.ts'
import { createSchema, type SchemaOptions } from '../schema/schema.ts'
import { type Database, portOf } from '../transaction/database.ts'
import type { TransactionOptions } from '../transaction/run-transaction.ts'
import { checkTransactional, type TransactionalOptions, transactional } from '../transactional.ts'
import { type OutageKind, TenantOutages } from './tenant-outages.ts'
import { NoPlaceError, type TenantLease, TenantPool } from './tenant-pool.ts'

/** What `open` resolves to. It may have further members, such as an outbox or repositories of the tenant; `write()`, `use()` and `current()` return the same object. */
export interface TenantDatabase<Handle = unknown> {
  readonly database: Database<Handle>
  /** Called when the database is not needed any more: closes its pool. Default: nothing is closed, as where tenants share a pool. */
  close?(): unknown
}

/** The handle of the database of a tenant, as in `Database<Handle>`. */
export type HandleOf<Opened extends TenantDatabase> = Opened['database'] extends Database<infer Handle> ? Handle : never

export interface TenantDatabasesOptions<Opened extends TenantDatabase> {
  /** The tenant of a message. A message for which it returns `undefined` or an empty string is rejected. */
  readonly tenantOf: (message: Message) => string | undefined
  /**
   * Opens the database of a tenant: called when it is needed and not open. Returns `undefined` if there is no such tenant: its messages are rejected. If it throws or
   * rejects, they are nacked with a delay. The name may come from a message: check it before you make a file name or a URL of it.
   */
  readonly open: (tenant: string) => Opened | undefined | Promise<Opened | undefined>
  /**
   * The maximum number of open databases. Each has a pool: this process has up to `maxOpen` times as many connections as a pool. With at least the concurrency of the router no
   * message waits for a place. Default: 50.
   */
  readonly maxOpen?: number | undefined
  /** Milliseconds after which an unused database is closed. `Infinity`: only when another tenant needs its place. Default: 300,000. */
  readonly idleTimeout?: number | undefined
  /** Milliseconds that `open`, `close`, and the wait for a place may take. Default: 10,000. */
  readonly openTimeout?: number | undefined
  /**
   * Milliseconds for which a tenant is not tried again after its database could not be used, by the number of consecutive failures. Default: exponential from 500 ms to
   * 30 s, ± 20 %.
   */
  readonly backoff?: Backoff | undefined
  readonly runtime?: Runtime | undefined
  /** Default: that of the first router that uses it; until then the console, from `info` up. */
  readonly logger?: Logger | undefined
  /** Default: those of the first router that uses it. */
  readonly metrics?: Metrics | undefined
}

export interface TenantWriteOptions extends TransactionOptions {
  /** Default: the ambient context. */
  readonly context?: Context | undefined
}

export interface TenantSchemasOptions extends SchemaOptions {
  /** How many databases are migrated concurrently. Default: 4. */
  readonly concurrency?: number | undefined
}

export interface TenantSchemasResult {
  /** The tenants whose tables are there now, in the order in which they were finished. */
  readonly migrated: readonly string[]
  /** Why the tables of the other tenants could not be created. */
  readonly failed: ReadonlyMap<string, Error>
}

export interface TenantDatabasesHealth {
  /** Databases that are open, being opened or being closed. */
  readonly open: number
  readonly inUse: number
  /** Messages and requests that wait for a place. */
  readonly waiting: number
  /** Tenants whose databases could not be used when they were tried last. */
  readonly unavailable: readonly string[]
}

/** A message or request that uses the database of a tenant. */
interface Call<Opened> {
  readonly tenant: string
  readonly opened: Opened
  readonly lease: TenantLease<Opened>
  /** Whether the code of the user was reached, so that a transaction could be begun. */
  reached: boolean
  hasEnded: boolean
}

/**
 * A database per tenant: transaction, inbox and outbox of a message are in the database of its tenant. Keeps at most `maxOpen` databases open, and closes those that are not used.
 *
 *     const tenants = tenantDatabases({
 *       tenantOf: (message) => message.subject,
 *       open(tenant) {
 *         const pool = new pg.Pool({ connectionString: urlOf(tenant), max: 4 })
 *         return { database: fromPg(pool), close: () => pool.end() }
 *       },
 *     })
 *     router.use(tenants.transactional({ inbox: { consumer: 'orders' }, outbox: { destination: 'order-events' } }))
 */
export function tenantDatabases<Opened extends TenantDatabase>(options: TenantDatabasesOptions<Opened>): TenantDatabases<Opened> {
  return new TenantDatabases(options)
}

/** Created by `tenantDatabases()`. */
export class TenantDatabases<Opened extends TenantDatabase> implements AsyncDisposable {
  readonly #tenantOf: (message: Message) => string | undefined
  readonly #pool: TenantPool<Opened>
  readonly #outages: TenantOutages
  readonly #ports: PartPorts
  readonly #key: ContextKey<Call<Opened>> = contextKey('ackord.sql.tenant', { callScoped: true })

  constructor(options: TenantDatabasesOptions<Opened>) {
    const {
      tenantOf,
      open,
      maxOpen = 50,
      idleTimeout = 300_000,
      openTimeout = 10_000,
      backoff = exponentialBackoff({ initial: 500, max: 30_000 }),
      runtime = systemRuntime,
      logger,
      metrics,
      ...unknown
    } = options
    rejectUnknownOptions('tenantDatabases()', unknown)
    this.#tenantOf = checkFunction('tenantOf', tenantOf)
    checkFunction('open', open)
    this.#ports = new PartPorts({ logger, metrics })
    const loggerOf = () => this.#ports.logger
    this.#outages = new TenantOutages({ backoff: checkFunction('backoff', backoff), runtime, logger: loggerOf })
    this.#pool = new TenantPool({
      open: async (tenant) => checkOpened(await open(tenant), tenant),
      maxOpen: checkCount('maxOpen', maxOpen),
      idleTimeout: checkDuration('idleTimeout', idleTimeout, { min: 1, infinite: true }),
      openTimeout: checkDuration('openTimeout', openTimeout, { min: 1 }),
      runtime,
      logger: loggerOf,
      onChange: (count) => this.#ports.metrics?.gauge('ackord.tenants.open', count, {}),
    })
  }

  /**
   * Transaction, inbox and outbox in the database of the message's tenant, like `transactional(database, options)`. With `groupCommit` messages of one tenant share a transaction.
   *
   * A message without a tenant, or of an unknown one, is rejected. If the database of a tenant cannot be opened or begins no transaction, has no tables, or refuses writes, its
   * messages are nacked with a delay: immediately, without trying it, until the back-off is over. Those of other tenants are handled.
   */
  transactional(options: TransactionalOptions): Middleware {
    checkTransactional(options)
    const chains = new WeakMap<Opened, Middleware>()
    const chainOf = (opened: Opened): Middleware => {
      let chain = chains.get(opened)
      if (chain === undefined) {
        chain = transactional(opened.database, options)
        chains.set(opened, chain)
        passPorts([chain], { logger: this.#ports.logger, metrics: this.#ports.metrics })
      }
      return chain
    }
    // They tell the order check of the router what this middleware does.
    const parts = (['transaction', 'inbox', 'outbox'] as const).map((role) => middleware({ role, resource: this }, (next) => next))
    const { groupCommit } = options
    const wantsConcurrency = groupCommit === undefined ? undefined : (groupCommit.size ?? 50)

    return middleware({ parts, wantsConcurrency, inheritPorts: this.#ports.inheritPorts }, (next) => {
      const processes = new WeakMap<Opened, Process>()
      const handle: Process = (message, context) => {
        const call = context.get(this.#key)
        if (call !== undefined) call.reached = true
        return next(message, context)
      }
      const tenantOf = (message: Message) => this.#tenantOfMessage(message)
      const run = this.#run.bind(this)
      return async function inTenantDatabase(message, context) {
        return await run(tenantOf(message), context, ({ opened }, inside) => {
          let process = processes.get(opened)
          if (process === undefined) {
            process = chainOf(opened)(handle)
            processes.set(opened, process)
          }
          return process(message, inside)
        })
      }
    })
  }

  /**
   * Does the work in a transaction of the tenant's database: a request, a job. In a handler of the same tenant it is a savepoint. Fails like a message of the tenant would: with a
   * `TenantUnknownError`, or a `TenantUnavailableError`, whose `retryAfter` fits the header `Retry-After`.
   *
   *     await tenants.write('acme', async (transaction, { outbox }) => {
   *       await transaction.query('insert into orders …')
   *       await outbox.append(transaction, orderPlaced({ orderId }))
   *     })
   */
  async write<R>(
    tenant: string,
    work: (transaction: HandleOf<Opened>, opened: Opened, context: Context) => Promise<R>,
    options: TenantWriteOptions = {},
  ): Promise<R> {
    const { context = currentContext() ?? rootContext(), ...settings } = options
    checkFunction('write(), work', work)
    return await this.#run(checkTenant(tenant, 'write()'), context, (call, inside) =>
      call.opened.database.write(
        (transaction, within) => {
          call.reached = true
          return work(transaction as HandleOf<Opened>, call.opened, within)
        },
        { ...settings, context: inside },
      ),
    )
  }

  /** Calls the function with what `open` returned for the tenant. The database is not closed until the promise has settled: do not use it longer. */
  async use<R>(tenant: string, work: (opened: Opened, context: Context) => Promise<R>): Promise<R> {
    checkFunction('use(), work', work)
    return await this.#run(checkTenant(tenant, 'use()'), currentContext() ?? rootContext(), async (call, inside) => {
      call.reached = true
      return await enter(inside, () => work(call.opened, inside))
    })
  }

  /** The tenant of the message or request that this context belongs to; `undefined` elsewhere. `context` defaults to the ambient one. */
  tenant(context: Context | undefined = currentContext()): string | undefined {
    return context?.get(this.#key)?.tenant
  }

  /** What `open` returned for the tenant of this context; `undefined` without one. `context` defaults to the ambient one. */
  current(context: Context | undefined = currentContext()): Opened | undefined {
    return context?.get(this.#key)?.opened
  }

  /**
   * The handle of the transaction that this context is in, in the database of its tenant: for repositories. Throws outside of one, because there is no database to fall back
   * to. `context` defaults to the ambient one.
   */
  executor(context: Context | undefined = currentContext()): HandleOf<Opened> {
    const handle = context === undefined ? undefined : this.current(context)?.database.transaction(context)
    if (handle === undefined) throw new TransactionRequiredError('executor() of tenantDatabases()')
    return handle as HandleOf<Opened>
  }

  /** Creates or migrates the tables of these tenants with `createSchema()`, some concurrently. A tenant that fails does not end it: its error is in the result. */
  async createSchemas(tenants: Iterable<string>, options: TenantSchemasOptions = {}): Promise<TenantSchemasResult> {
    const { concurrency = 4, ...schema } = options
    checkCount('concurrency', concurrency)
    const migrated: string[] = []
    const failed = new Map<string, Error>()
    // All workers take from one iterator, so each tenant is migrated once.
    const names = new Set(tenants).values()
    const work = async () => {
      for (const name of names) {
        try {
          await this.use(name, ({ database }) => createSchema(database, schema))
          migrated.push(name)
        } catch (error) {
          failed.set(name, toError(error))
        }
      }
    }
    await Promise.all(Array.from({ length: concurrency }, work))
    return { migrated, failed }
  }

  health(): TenantDatabasesHealth {
    const { size, inUse, waiting } = this.#pool
    return { open: size, inUse, waiting, unavailable: this.#outages.tenants }
  }

  /** Waits until no message or request uses a database, and closes all. Stop the routers first: later messages are nacked. Idempotent. */
  async close(): Promise<void> {
    await this.#pool.close()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  #tenantOfMessage(message: Message): string {
    const tenant: unknown = this.#tenantOf(message)
    if (typeof tenant === 'string' && tenant !== '') return tenant
    const found = tenant === '' ? 'an empty string' : describeValue(tenant)
    throw new TenantUnknownError(`tenantOf() found no tenant for ${describeMessage(message)}: it returned ${found}.`, undefined)
  }

  /** Runs the work with an open database of the tenant, and finds out whether the database could be used. */
  async #run<R>(tenant: string, context: Context, work: (call: Call<Opened>, inside: Context) => Promise<R>): Promise<R> {
    const outer = context.get(this.#key)
    // Another place might never become free: the outer call keeps this one. Its outcome is judged by the outer call.
    if (outer?.tenant === tenant && !outer.hasEnded) {
      const lease = outer.lease.share()
      try {
        return await work(outer, context)
      } finally {
        lease.release()
      }
    }
    const isTry = this.#outages.check(tenant)
    try {
      return await this.#runOutermost(tenant, context, work)
    } finally {
      if (isTry) this.#outages.tried(tenant)
    }
  }

  async #runOutermost<R>(tenant: string, context: Context, work: (call: Call<Opened>, inside: Context) => Promise<R>): Promise<R> {
    let lease: TenantLease<Opened>
    try {
      lease = this.#pool.tryAcquire(tenant) ?? (await this.#pool.acquire(tenant, context.signal))
    } catch (error) {
      throw this.#notOpened(tenant, context, error)
    }
    const call: Call<Opened> = { tenant, opened: lease.opened, lease, reached: false, hasEnded: false }
    try {
      const result = await work(call, context.with(this.#key, call))
      this.#outages.worked(tenant, 'committed')
      return result
    } catch (error) {
      const kind = outageOf(error, call, context)
      if (kind !== undefined) throw this.#unavailable(tenant, kind, error)
      if (call.reached) this.#outages.worked(tenant, 'begun')
      throw error
    } finally {
      call.hasEnded = true
      lease.release()
    }
  }

  #notOpened(tenant: string, { signal }: Context, error: unknown): unknown {
    if (error instanceof NoPlaceError) return new TenantUnavailableError(tenant, error.message, { retryAfter: noPlaceDelay })
    if (signal.aborted || !isRetryable(error) || isAckordError(error, 'ACKORD_SHUTDOWN')) return error
    return this.#unavailable(tenant, 'unreachable', error)
  }

  #unavailable(tenant: string, kind: OutageKind, error: unknown): TenantUnavailableError {
    this.#ports.metrics?.count('ackord.tenants.failures', 1, {})
    return this.#outages.failed(tenant, kind, error)
  }
}

/** Milliseconds. */
const noPlaceDelay = 1000

/** Whether the error means that the database of the tenant cannot be used; otherwise it belongs to the message or to its handler. */
function outageOf<Opened extends TenantDatabase>(
  error: unknown,
  { opened, reached }: Call<Opened>,
  { signal }: Context,
): OutageKind | undefined {
  const { dialect } = portOf(opened.database)
  if (!isRetryable(error)) return undefined
  for (const cause of causesOf(error)) {
    // Of another tenant, whose database the handler has used.
    if (isAckordError(cause, 'ACKORD_TENANT_UNAVAILABLE')) return undefined
    // Asked again: it may come from another store that the handler uses.
    if (isAckordError(cause, 'ACKORD_STORE_REFUSES_WRITES') && dialect.refusesWrites(cause.cause)) return 'refusesWrites'
  }
  if (reached || signal.aborted) return undefined
  if (isAckordError(error)) return error.code === 'ACKORD_SCHEMA' ? 'unreachable' : undefined
  return dialect.isConflict(error) || dialect.isLockTimeout?.(error) === true ? undefined : 'unreachable'
}

function checkTenant(tenant: string, caller: string): string {
  if (typeof tenant === 'string' && tenant !== '') return tenant
  throw new TenantUnknownError(`${caller} was called without a tenant: the name must be a non-empty string.`, undefined)
}

function checkOpened<Opened extends TenantDatabase>(opened: Opened | undefined, tenant: string): Opened | undefined {
  if (opened === undefined) return undefined
  checkFunction(`open('${tenant}').database.write`, opened?.database?.write)
  if (opened.close !== undefined) checkFunction(`open('${tenant}').close`, opened.close)
  return opened
}
