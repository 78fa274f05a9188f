import { consoleLogger, InvalidOptionError, type Logger } from '@ackord/core'
import { checkFunction, checkNoMore, guardLogger } from '@ackord/core/internal'
import { type Driver, lend, workInSession } from '../../contract/driver.ts'
import { Database } from '../../transaction/database.ts'
import { type PostgresOptions, postgresDialect } from '../dialect.ts'
import { isReadOnly } from '../errors.ts'
import { preparedBy } from './pg-pipeline.ts'
import { openSession, type PgClient, type PgQueryable, type PgSessionOptions, runOn } from './pg-session.ts'

/** What is used of a `pg.Pool`. */
export interface PgPool extends PgQueryable {
  connect(): Promise<PgClient>
  on(event: 'error', listener: (error: Error) => void): unknown
  readonly idleCount?: number | undefined
}

export interface FromPgOptions extends PostgresOptions {
  /**
   * Whether our own statements are prepared on their connection. Behind a pooler that gives out a connection per transaction and does not
   * follow prepared statements, such as PgBouncer before 1.21, they must not be. Default: true.
   */
  readonly preparedStatements?: boolean | undefined
  /** Told of idle connections that break. Default: `consoleLogger`. */
  readonly logger?: Logger | undefined
}

/**
 * A database on a `pg.Pool`. Adapters get `query`, in all of its forms; in a transaction it is tracked, except for cursors and streams,
 * which must be closed before the handler returns: if one is left open, the message fails and its connection is closed. An idle connection that breaks is logged, where `pg` would end the process.
 */
export function fromPg<Pool extends PgPool>(pool: Pool, options: FromPgOptions = {}): Database<Pick<Pool, 'query'>> {
  const { preparedStatements = true, logger: givenLogger = consoleLogger, schema, names, order, notify, ...unknown } = options
  checkNoMore('fromPg()', unknown)
  const logger = guardLogger(givenLogger)
  checkFunction('fromPg(pool).connect', pool?.connect)
  checkFunction('fromPg(pool).query', pool.query)
  if (!watched.has(pool)) {
    watched.add(pool)
    pool.on('error', (error) => logger.warn({ err: error }, 'An idle connection to the database broke; the pool replaces it.'))
    // Not in PgPool, so that whoever wraps a pool need not know of it.
    const { on } = pool as { on(event: string, listener: (client: object) => void): unknown }
    on.call(pool, 'connect', preparedBy)
  }
  // Inside, only the form of `query` that PgQueryable names is used; outside, all of them are passed through.
  const driver = pgDriver(pool, { named: preparedStatements }) as unknown as Driver<Pick<Pool, 'query'>>
  return new Database({ schema, names, order, notify, dialect: postgresDialect, driver })
}

const watched = new WeakSet<object>()

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
      client.on('error', opened.breakOff)
      return await workInSession(opened, work, function end() {
        client.release(opened.broken())
        client.removeListener('error', opened.breakOff)
        return undefined
      })
    },
  }
}

/** After a failover, connections to the server that only reads would be lent again and again. */
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
  // One that is idle comes at once.
  return isIdle ? connecting : lend(connecting, (late) => late.release(), signal)
}
