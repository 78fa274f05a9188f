import { InvalidOptionError, type Logger } from '@ackord/core'
import { checkFunction, PartPorts, rejectUnknownOptions } from '@ackord/core/internal'
import { acquire, type Driver, workInSession } from '../../contract/driver.ts'
import { Database } from '../../transaction/database.ts'
import { type PostgresOptions, postgresDialect } from '../dialect.ts'
import { isReadOnly } from '../errors.ts'
import type { PgQueryable } from './pg-handle.ts'
import { preparedBy } from './pg-pipeline.ts'
import { openSession, type PgClient, type PgSessionOptions, runOn } from './pg-session.ts'

/** The part of a `pg.Pool` that is used. */
export interface PgPool extends PgQueryable {
  connect(): Promise<PgClient>
  on(event: 'error', listener: (error: Error) => void): unknown
  readonly idleCount?: number | undefined
}

export interface FromPgOptions extends PostgresOptions {
  /**
   * Whether the library's own statements are prepared on their connection. They must not be behind a pooler that assigns connections per transaction
   * and does not track prepared statements, such as PgBouncer before 1.21. Default: true.
   */
  readonly preparedStatements?: boolean | undefined
  /** Receives errors of idle connections, and what the parts on this database log that have no logger. Default: that of the first router, relay or service that uses it; until then the console, from `info` up. */
  readonly logger?: Logger | undefined
}

/** The type of a database of `fromPg()`, to pass it around: `PgDatabase<pg.Pool>`. */
export type PgDatabase<Pool extends PgPool> = Database<Pick<Pool, 'query'>>

/**
 * A database on a `pg.Pool`. Adapters get `query`, in all of its forms; in a transaction it is tracked, except for cursors and streams, which must be
 * closed before the handler returns: if one is left open, the message fails and its connection is closed. An idle connection that breaks is logged,
 * where `pg` would end the process.
 */
export function fromPg<Pool extends PgPool>(pool: Pool, options: FromPgOptions = {}): PgDatabase<Pool> {
  const { preparedStatements = true, logger, schema, names, order, mode, notify, ...unknown } = options
  rejectUnknownOptions('fromPg()', unknown)
  checkFunction('fromPg(pool).connect', pool?.connect)
  checkFunction('fromPg(pool).query', pool.query)
  const ports = watched.get(pool) ?? watchPool(pool)
  ports.inheritPorts({ logger })
  // Inside, only the form of `query` in PgQueryable is used; outside, all forms are passed through.
  const driver = pgDriver(pool, { named: preparedStatements }) as unknown as Driver<Pick<Pool, 'query'>>
  return new Database({ schema, names, order, mode, notify, logger: logger ?? ports.logger, dialect: postgresDialect, driver })
}

/** The ports of pools, however often they are wrapped. */
const watched = new WeakMap<object, PartPorts>()

function watchPool(pool: PgPool): PartPorts {
  const ports = new PartPorts()
  watched.set(pool, ports)
  pool.on('error', (error) => ports.logger.warn({ err: error }, 'An idle connection to the database broke; the pool replaces it.'))
  // Not in PgPool, so that wrappers of a pool need not implement it.
  const { on } = pool as { on(event: string, listener: (client: object) => void): unknown }
  on.call(pool, 'connect', preparedBy)
  return ports
}

function pgDriver(pool: PgPool, options: PgSessionOptions): Driver<PgQueryable> {
  return {
    pool,
    async run(handle, sql, parameters, { prepare = false } = {}) {
      try {
        return await runOn(handle, sql, parameters, { prepare: prepare && options.named })
      } catch (error) {
        if (handle === pool && isReadOnly(error)) await replaceIdle(pool, error)
        throw error
      }
    },
    inTransaction(handle) {
      const status = 'getTransactionStatus' in handle ? (handle as PgClient).getTransactionStatus?.() : undefined
      return status === undefined || status === null ? undefined : status !== 'I'
    },
    async transaction(settings, work, signal) {
      const client = await connect(pool, signal)
      if (typeof client?.release !== 'function') throw new InvalidOptionError('fromPg(pool)', 'must be a pg.Pool, not a single client.')
      const opened = openSession(client, settings, options)
      client.on('error', opened.markBroken)
      return await workInSession(opened, work, function end() {
        client.release(opened.broken())
        client.removeListener('error', opened.markBroken)
        return undefined
      })
    },
  }
}

/** After a failover, the pool would hand out connections to the read-only server again and again. */
async function replaceIdle(pool: PgPool, reason: Error): Promise<void> {
  for (let count = pool.idleCount ?? 0; count > 0; count -= 1) {
    const client = await pool.connect()
    client.release(reason)
  }
}

function connect(pool: PgPool, signal: AbortSignal): Promise<PgClient> {
  if (signal.aborted) return Promise.reject(signal.reason)
  const isIdle = pool.idleCount !== undefined && pool.idleCount > 0
  const connecting = pool.connect()
  // An idle connection is available immediately.
  return isIdle ? connecting : acquire(connecting, (late) => late.release(), signal)
}
