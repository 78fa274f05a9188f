import { AckordError, consoleLogger, InvalidOptionError, type Logger } from '@ackord/core'
import { abortable, checkFunction, guardLogger } from '@ackord/core/internal'
import { Database } from '../database.ts'
import type { Driver, Session, StatementResult } from '../driver.ts'
import { CommitUnknownError, TransactionAbortedError } from '../errors.ts'
import { Lane } from '../lane.ts'
import type { QueryTracker } from '../query-tracker.ts'
import type { TableOptions } from '../tables.ts'
import { postgresDialect } from './postgres-dialect.ts'
import { refuseControl } from './refuse-control.ts'
import { endsConnection, refusedCommit } from './sql-state.ts'

interface PgResult {
  readonly rows: unknown[]
  readonly rowCount: number | null
  readonly command: string
}

interface PgQueryable {
  query(text: string, values?: unknown[]): Promise<PgResult>
}

interface PgClient extends PgQueryable {
  release(error?: Error | boolean): void
  on(event: 'error', listener: (error: Error) => void): unknown
  removeListener(event: 'error', listener: (error: Error) => void): unknown
  getTransactionStatus?(): string | null
}

/** What is used of a `pg.Pool`. */
export interface PgPool extends PgQueryable {
  connect(): Promise<PgClient>
  on(event: 'error', listener: (error: Error) => void): unknown
}

export interface FromPgOptions extends TableOptions {
  /** Told of idle connections that break. Default: `consoleLogger`. */
  readonly logger?: Logger | undefined
}

/**
 * A database on a `pg.Pool`. Adapters get `query`, in all of its forms; in a transaction it is tracked, except for cursors and streams,
 * which must be closed before the handler returns. An idle connection that breaks is logged, where `pg` would end the process.
 */
export function fromPg<Pool extends PgPool>(pool: Pool, options: FromPgOptions = {}): Database<Pick<Pool, 'query'>> {
  const logger = guardLogger(options.logger ?? consoleLogger)
  checkFunction('fromPg(pool).connect', pool?.connect)
  checkFunction('fromPg(pool).query', pool.query)
  if (!watched.has(pool)) {
    watched.add(pool)
    pool.on('error', (error) => logger.warn({ err: error }, 'An idle connection to the database broke; the pool replaces it.'))
  }
  // Inside, only the form of `query` that PgQueryable names is used; outside, all of them are passed through.
  return new Database({ ...options, dialect: postgresDialect, driver: pgDriver(pool) as unknown as Driver<Pick<Pool, 'query'>> })
}

const watched = new WeakSet<object>()

function pgDriver(pool: PgPool): Driver<PgQueryable> {
  return {
    pool,
    run,
    inTransaction(handle) {
      const status = 'getTransactionStatus' in handle ? (handle as PgClient).getTransactionStatus?.() : undefined
      return status === undefined || status === null ? undefined : status !== 'I'
    },
    async transaction(settings, work, signal) {
      const client = await connect(pool, signal)
      let broken: Error | undefined
      const onError = (error: Error) => {
        broken ??= error
      }
      client.on('error', onError)
      try {
        await client.query(settings === '' ? 'BEGIN' : `BEGIN; ${settings}`).catch((error: Error) => {
          broken ??= error
          throw error
        })
        const lane = new Lane()
        let result: Awaited<ReturnType<typeof work>>
        try {
          result = await work(session(client, lane))
        } catch (error) {
          await lane.run(() => client.query('ROLLBACK')).catch(onError)
          throw error
        }
        // The server rolls back what is open on a connection that ends, and COMMIT was not sent yet.
        if (endsConnection(lane.failure)) broken ??= lane.failure
        if (broken !== undefined) throw broken
        await commit(client).catch((error: Error) => {
          if (!refusedCommit(error) && !(error instanceof TransactionAbortedError)) broken ??= error
          throw error
        })
        return result
      } finally {
        client.release(broken)
        client.removeListener('error', onError)
      }
    },
  }
}

/** A pool may have no connection to give for a long time; an abort does not wait for it. */
async function connect(pool: PgPool, signal: AbortSignal): Promise<PgClient> {
  const connecting = pool.connect()
  let client: PgClient
  try {
    client = await abortable(connecting, signal)
  } catch (error) {
    connecting.then(
      (late) => late.release(),
      () => {},
    )
    throw error
  }
  if (typeof client?.release !== 'function') throw new InvalidOptionError('fromPg(pool)', 'must be a pg.Pool, not a single client.')
  return client
}

async function commit(client: PgClient): Promise<void> {
  // Known without a round trip, by newer versions of pg.
  if (client.getTransactionStatus?.() === 'I') throw new CommitUnknownError(endedByItself())
  let answer: PgResult
  try {
    answer = await client.query('COMMIT')
  } catch (error) {
    throw refusedCommit(error) ? error : new CommitUnknownError(error)
  }
  if (answer.command !== 'COMMIT') throw new TransactionAbortedError()
}

function endedByItself(): AckordError {
  return new AckordError('ACKORD_SCOPE_ENDED', 'A statement of the handler had ended the transaction before.')
}

function session(client: PgClient, lane: Lane): Session<PgQueryable> {
  return {
    run: (sql, parameters = []) => lane.run(() => run(client, sql, parameters)),
    async script(sql) {
      await lane.run(() => client.query(sql))
    },
    track: (tracker) => trackedHandle(client, lane, tracker),
  }
}

async function run(handle: PgQueryable, sql: string, parameters: readonly unknown[]): Promise<StatementResult> {
  const { rows, rowCount } = await handle.query(sql, [...parameters])
  // Rows are objects: none of our statements asks for arrays.
  return { rows: rows as StatementResult['rows'], count: rowCount ?? 0 }
}

/** `query` in the forms that pg has: text and values, a configuration, with a callback, or something to submit (a cursor, a stream). */
function trackedHandle(client: PgQueryable, lane: Lane, tracker: QueryTracker): PgQueryable {
  const forward = client.query.bind(client) as (...given: unknown[]) => Promise<PgResult>

  function query(...given: unknown[]): Promise<PgResult> | undefined {
    const [first] = given
    const isObject = typeof first === 'object' && first !== null
    if (isObject && 'submit' in first) {
      tracker.checkOpen()
      return forward(...given)
    }
    const start = () => {
      refuseControl(isObject && 'text' in first ? first.text : first)
      return lane.run(() => forward(...given))
    }
    const callback = given.at(-1)
    if (typeof callback !== 'function') return tracker.run(start)
    given.pop()
    tracker.run(start).then(
      (result) => callback(null, result),
      (error: unknown) => callback(error),
    )
    return undefined
  }
  // Callers know by the form they use what it gives back.
  return { query: query as PgQueryable['query'] }
}
