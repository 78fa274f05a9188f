import {
  AckordError,
  beginAttempt,
  type Context,
  consoleLogger,
  type Logger,
  type Message,
  type Metrics,
  type Middleware,
  middleware,
  type Process,
  probe,
  TransactionScope,
} from '@ackord/core'
import { checkCount, checkNoMore, guardLogger, guardMetrics, isSettled } from '@ackord/core/internal'
import { type Database, type DatabasePort, portOf } from './database.ts'
import type { TransactionSettings } from './dialect.ts'
import { CommitUnknownError, TransactionAbortedError } from './errors.ts'
import { QueryTracker } from './query-tracker.ts'
import { savepoint } from './savepoint.ts'
import { RollbackOnly, transactionWork } from './transaction-work.ts'

export interface TransactionOptions extends TransactionSettings {
  /** How often a transaction that lost against another one (serialization failure, deadlock) is run again, handler included. Default: 3. */
  readonly retries?: number | undefined
  /** Default: `consoleLogger`. */
  readonly logger?: Logger | undefined
  /** Counts `ackord.transaction.retries`. Default: none. */
  readonly metrics?: Metrics | undefined
}

/**
 * One transaction per message and attempt: committed when the handler succeeds, rolled back when it fails, its signal is aborted or the
 * message is nacked or rejected in it. Acks wait for the commit. Inside of a transaction on the same database it is a savepoint.
 */
export function transactionMiddleware<Handle>(database: Database<Handle>, options: TransactionOptions = {}): Middleware {
  const { retries = 3, isolation, statementTimeout, lockTimeout, idleTimeout, ...ports } = options
  const { logger: givenLogger = consoleLogger, metrics: givenMetrics, ...unknown } = ports
  checkNoMore('transactionMiddleware()', unknown)
  checkCount('retries', retries, { min: 0 })
  const logger = guardLogger(givenLogger)
  const metrics = givenMetrics === undefined ? undefined : guardMetrics(givenMetrics)
  const port = portOf(database)
  const settings = port.dialect.settings({ isolation, statementTimeout, lockTimeout, idleTimeout })

  return middleware(
    { role: 'transaction', resource: database },
    (next) =>
      async function transaction(message, context) {
        const outer = port.find(context)
        if (outer?.own !== undefined) return await savepoint(port, outer.own, next, message, context)
        if (outer !== undefined) throw foreignTransaction()

        for (let retry = 1; ; retry += 1) {
          const attempt = retry === 1 ? context : beginAttempt(context)
          try {
            return await runTransaction(port, { settings, logger }, next, message, attempt)
          } catch (error) {
            if (retry > retries || !port.dialect.isConflict(error) || context.signal.aborted || isSettled(message)) throw error
            metrics?.count('ackord.transaction.retries', 1, {})
            const fields = { err: error, type: message.type, id: message.id, retry }
            logger.debug(fields, 'The transaction lost against another one and is run again.')
          }
        }
      },
  )
}

async function runTransaction<Handle>(
  port: DatabasePort<Handle>,
  options: { readonly settings: string; readonly logger: Logger },
  next: Process,
  message: Message,
  context: Context,
): Promise<readonly Message[]> {
  context.signal.throwIfAborted()
  const scope = new TransactionScope(context, { logger: options.logger })
  const tracker = new QueryTracker()
  let outputs: readonly Message[]
  try {
    outputs = await port.driver.transaction(
      options.settings,
      async function work(session) {
        let paused = probe('transaction.begun')
        if (paused !== undefined) await paused
        const produced = await transactionWork(port, { session, scope, savepoints: { count: 0 } }, tracker, next, message, context)
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
    if (isSettled(message)) return error.outputs
    throw error.reason
  }
  const paused = probe('transaction.afterCommit')
  if (paused !== undefined) await paused
  await scope.end('committed')
  return outputs
}

function foreignTransaction(): AckordError {
  return new AckordError(
    'ACKORD_MIDDLEWARE_ORDER',
    'transactionMiddleware() found a transaction that withTransaction() put into the context. It cannot know when that one ends, and would ack too early. Use one or the other.',
  )
}
