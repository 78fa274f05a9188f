import { AckordError, beginAttempt, type Context, consoleLogger, type Logger, type Metrics, probe, TransactionScope } from '@ackord/core'
import { checkCount, checkNoMore, guardLogger, guardMetrics, isSettled } from '@ackord/core/internal'
import type { TransactionSettings } from './dialect.ts'
import { CommitUnknownError, TransactionAbortedError } from './errors.ts'
import type { DatabasePort } from './open-transaction.ts'
import { QueryTracker } from './query-tracker.ts'
import { savepoint } from './savepoint.ts'
import { RollbackOnly, type TransactionWork, workInside } from './transaction-work.ts'

export interface TransactionOptions extends TransactionSettings {
  /** How often a transaction that lost against another one (serialization failure, deadlock) is run again, work included. Default: 3. */
  readonly retries?: number | undefined
  /** Default: `consoleLogger`. */
  readonly logger?: Logger | undefined
  /** Counts `ackord.transaction.retries`. Default: none. */
  readonly metrics?: Metrics | undefined
}

export type RunTransaction = <R>(work: TransactionWork<R>, context: Context) => Promise<R>

/** The options, checked. */
export interface TransactionRules {
  /** Whose they are, for texts. */
  readonly caller: string
  readonly retries: number
  readonly settings: readonly string[]
  readonly logger: Logger
  readonly metrics: Metrics | undefined
}

export function transactionRules<Handle>(port: DatabasePort<Handle>, caller: string, options: TransactionOptions): TransactionRules {
  const { retries = 3, isolation, statementTimeout, lockTimeout, idleTimeout, ...ports } = options
  const { logger = consoleLogger, metrics, ...unknown } = ports
  checkNoMore(caller, unknown)
  return {
    caller,
    retries: checkCount('retries', retries, { min: 0 }),
    settings: port.dialect.settings({ isolation, statementTimeout, lockTimeout, idleTimeout }),
    logger: guardLogger(logger),
    metrics: metrics === undefined ? undefined : guardMetrics(metrics),
  }
}

/** Does work in a transaction of its own: a savepoint inside of one of ours on the same database. */
export function transactionRunner<Handle>(port: DatabasePort<Handle>, rules: TransactionRules): RunTransaction {
  const { caller, retries, logger, metrics } = rules
  return async function runTransaction(work, context) {
    const outer = port.find(context)
    if (outer !== undefined) {
      if (outer.own === undefined) throw inForeignTransaction(caller)
      return await savepoint(port, outer.own, work, context)
    }
    for (let retry = 1; ; retry += 1) {
      const attempt = retry === 1 ? context : beginAttempt(context)
      try {
        return await runOnce(port, rules, work, attempt)
      } catch (error) {
        const { message } = work
        if (retry > retries || !port.dialect.isConflict(error) || context.signal.aborted) throw error
        if (message !== undefined && isSettled(message)) throw error
        metrics?.count('ackord.transaction.retries', 1, {})
        const fields = { err: error, type: message?.type, id: message?.id, retry }
        logger.debug(fields, 'The transaction lost against another one and is run again.')
      }
    }
  }
}

async function runOnce<Handle, R>(
  port: DatabasePort<Handle>,
  { settings, logger }: TransactionRules,
  work: TransactionWork<R>,
  context: Context,
): Promise<R> {
  context.signal.throwIfAborted()
  const scope = new TransactionScope(context, { logger })
  const tracker = new QueryTracker(context.signal)
  let result: R
  try {
    result = await port.driver.transaction(
      settings,
      async function workIn(session) {
        let paused = probe('transaction.begun')
        if (paused !== undefined) await paused
        const produced = await workInside(port, { session, scope, savepoints: { count: 0 } }, tracker, work, context)
        paused = probe('transaction.beforeCommit')
        if (paused !== undefined) await paused
        return produced
      },
      context.signal,
    )
  } catch (error) {
    if (error instanceof TransactionAbortedError) error.cause ??= tracker.failure
    await scope.end(error instanceof CommitUnknownError ? 'unknown' : 'rolledBack')
    if (!(error instanceof RollbackOnly)) throw error
    // The handler gave its verdict itself and it was carried out just now: the router sees that, and keeps the outputs back.
    if (work.message !== undefined && isSettled(work.message)) return error.result as R
    throw error.reason
  }
  const paused = probe('transaction.afterCommit')
  if (paused !== undefined) await paused
  const ending = scope.end('committed')
  if (ending !== undefined) await ending
  return result
}

function inForeignTransaction(caller: string): AckordError {
  return new AckordError(
    'ACKORD_MIDDLEWARE_ORDER',
    `${caller} found a transaction that withTransaction() put into the context. It cannot know when that one ends, and would ack too early. Use one or the other.`,
  )
}
