import {
  AckordError,
  beginAttempt,
  type Context,
  isAckordError,
  type Logger,
  type Metrics,
  type Part,
  StoreRefusesWritesError,
} from '@ackord/core'
import {
  checkCount,
  type DescribedMetrics,
  isSettled,
  logFields,
  PartPorts,
  probe,
  rejectUnknownOptions,
  TransactionScope,
} from '@ackord/core/internal'
import type { TransactionSettings } from '../contract/dialect.ts'
import type { Session } from '../contract/driver.ts'
import { QueryTracker } from '../contract/query-tracker.ts'
import { isOutcomeUnknown, TransactionAbortedError } from '../errors.ts'
import type { DatabasePort } from './open-transaction.ts'
import { RollbackOnly, savepoint, type TransactionWork, type WorkEndings, workInside } from './transaction-work.ts'

export interface TransactionOptions extends TransactionSettings {
  /** The number of retries, work included, of a transaction that lost a conflict (serialization failure, deadlock). Default: 3. */
  readonly retries?: number | undefined
  /** Default: that of the router or of the database. */
  readonly logger?: Logger | undefined
  /** Counts `ackord.transaction.retries`. Default: those of the router. */
  readonly metrics?: Metrics | undefined
}

export type RunTransaction = <R>(work: TransactionWork<R>, context: Context) => Promise<R>

/** The validated options. */
export interface TransactionRules extends Required<Part> {
  /** The function they were passed to, for error texts. */
  readonly caller: string
  readonly retries: number
  readonly settings: readonly string[]
  readonly logger: Logger
  readonly metrics: DescribedMetrics | undefined
}

export function transactionRules<Handle>(port: DatabasePort<Handle>, caller: string, options: TransactionOptions): TransactionRules {
  const { retries = 3, isolation, statementTimeout, lockTimeout, idleTimeout, ...ports } = options
  const { logger, metrics, ...unknown } = ports
  rejectUnknownOptions(caller, unknown)
  const own = new PartPorts({ logger: logger ?? port.ports.logger, metrics }, [port.ports])
  return {
    caller,
    retries: checkCount('retries', retries, { min: 0 }),
    settings: port.dialect.settings({ isolation, statementTimeout, lockTimeout, idleTimeout }),
    logger: own.logger,
    get metrics() {
      return own.metrics
    },
    inheritPorts: own.inheritPorts,
  }
}

/** Does work in a transaction of its own: inside of a transaction of the library on the same database, in a savepoint. */
export function transactionRunner<Handle>(port: DatabasePort<Handle>, rules: TransactionRules): RunTransaction {
  const { caller, retries, logger } = rules

  /**
   * Asks the database itself whether it refuses writes, because the reason may be a single transaction or a connection that outlived a failover: only
   * a database that refuses writes makes messages wait.
   */
  async function confirmRefusal(error: unknown): Promise<boolean> {
    const { dialect, driver } = port
    const question = dialect.confirmRefusal?.(error)
    if (question === undefined) return true
    try {
      return (await driver.run(driver.pool, question, [])).rows.length > 0
    } catch {
      return true
    }
  }

  function attempt<R>(work: TransactionWork<R>, context: Context, retry: number): Promise<R> {
    async function runAgain(error: unknown): Promise<R> {
      const { message } = work
      const isRefused = !isOutcomeUnknown(error) && port.dialect.refusesWrites(error)
      if (isRefused && (await confirmRefusal(error))) throw refusesWrites(error)
      // The library's own conflict: a version that has changed.
      const isConflict = port.dialect.isConflict(error) || isAckordError(error, 'ACKORD_TRANSACTION_CONFLICT')
      if (retry > retries || !(isRefused || isConflict) || context.signal.aborted) throw error
      if (message !== undefined && isSettled(message)) throw error
      rules.metrics?.count('ackord.transaction.retries', 1, {})
      const fields = { err: error, ...(message !== undefined && logFields(message)), retry }
      logger.debug(
        fields,
        isRefused
          ? 'The transaction was read-only although the database accepts writes, and is retried on another connection.'
          : 'The transaction lost a conflict with another one and is retried.',
      )
      return await attempt(work, context, retry + 1)
    }
    return runOnce(port, rules, work, retry === 1 ? context : beginAttempt(context), runAgain)
  }

  return function runTransaction(work, context) {
    const outer = port.find(context)
    if (outer === undefined) return attempt(work, context, 1)
    const { own } = outer
    if (own === undefined) return Promise.reject(inForeignTransaction(caller))
    try {
      outer.checkOpen()
    } catch (error) {
      return Promise.reject(error)
    }
    // Watched: the outer transaction does not end before it.
    return outer.watch(() => savepoint(port, own, work, context))
  }
}

/** `onFailure` receives the error, and decides the result. No async/await on the hot path: saves promises per message. */
function runOnce<Handle, R>(
  port: DatabasePort<Handle>,
  { settings, logger }: TransactionRules,
  work: TransactionWork<R>,
  context: Context,
  onFailure: (error: unknown) => Promise<R>,
): Promise<R> {
  const { signal } = context
  if (signal.aborted) return Promise.reject(signal.reason)
  const scope = new TransactionScope(context, { logger })
  const tracker = new QueryTracker(signal)
  let opened: Session<Handle> | undefined

  function workIn(session: Session<Handle>): Promise<R> {
    opened = session
    const { last } = work
    const endings: WorkEndings<R> = {
      last: last === undefined ? beforeCommit : (result: R) => last(result, session).then(() => beforeCommit(result)),
    }
    const begin = () => workInside(port, { session, scope, isSavepoint: false, savepoints: { count: 0 } }, tracker, work, context, endings)
    return probe('transaction.begun')?.then(begin) ?? begin()
  }

  function committed(result: R): R | Promise<R> {
    const end = () => scope.end('committed')
    const ending = probe('transaction.afterCommit')?.then(end) ?? end()
    return ending === undefined ? result : ending.then(() => result)
  }

  async function failed(given: unknown): Promise<R> {
    // A later error of the handler does not change this: its earlier changes may be committed, including its inbox record.
    const ended = isOutcomeUnknown(given) ? undefined : opened?.ended?.()
    if (ended !== undefined) ended.cause ??= given instanceof RollbackOnly ? given.reason : given
    const error = ended ?? given
    if (error instanceof TransactionAbortedError) error.cause ??= tracker.failure
    await scope.end(isOutcomeUnknown(error) ? 'unknown' : 'rolledBack')
    if (!(error instanceof RollbackOnly)) return await onFailure(error)
    // The handler has settled the message itself, and its verdict was carried out just now: the router sees that, and discards the outputs.
    if (work.message !== undefined && isSettled(work.message)) return error.result as R
    return await onFailure(error.reason)
  }

  return port.driver.transaction(settings, workIn, signal).then(committed, failed)
}

function refusesWrites(cause: unknown): StoreRefusesWritesError {
  return new StoreRefusesWritesError('The database', cause instanceof Error ? cause.message : String(cause), { cause })
}

function beforeCommit<R>(result: R): R | Promise<R> {
  return probe('transaction.beforeCommit')?.then(() => result) ?? result
}

function inForeignTransaction(caller: string): AckordError {
  return new AckordError(
    'ACKORD_MIDDLEWARE_ORDER',
    `${caller} found a transaction that withTransaction() put into the context. It cannot know when that one ends, and would ack too early. Use one or the other.`,
  )
}
