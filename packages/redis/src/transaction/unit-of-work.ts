import { beginAttempt, type Context, enter, type Logger, type Message } from '@ackord/core'
import {
  type DescribedMetrics,
  describeMessage,
  isSettled,
  outputIdsKey,
  probe,
  TransactionScope,
  transactionScopeKey,
} from '@ackord/core/internal'
import { TransactionAbortedError } from '../errors.ts'
import { CommandQueue, type QueueContext } from './command-queue.ts'
import { type CommitAnswer, type Committer, commitError, type MarkerClaim } from './committer.ts'

/** The parts of a Redis object that a unit of work needs. */
export interface UnitOfWorkParts {
  readonly queueContext: QueueContext
  readonly committer: Committer
  readonly logger: Logger
  /** Returns a unique string. */
  readonly tokens: () => string
  /** The context inside of a transaction. */
  enter(context: Context, transaction: CommandQueue): Context
}

/** The work of one transaction. */
export interface TransactionWork<R> {
  /** The message that is being handled, whose verdicts wait for the end of the transaction; `undefined` outside of a router. */
  readonly message: Message | undefined
  readonly run: (context: Context) => Promise<R>
  /** The claim that commits with it, instead of the one of the inbox around it. Default: none. */
  readonly claim?: MarkerClaim | undefined
  /** Names what is done, in errors. Default: the message, or `redis.write()`. */
  readonly owner?: string | undefined
  /** Why a result must not be committed inside of an inbox. Default: it may be. */
  readonly problemOf?: ((result: R, message: Message | undefined) => Error | undefined) | undefined
}

/** The options of a transaction, checked and completed. */
export interface TransactionTerms {
  readonly retries: number
  readonly rollback: boolean
  readonly replayWindow: number
  readonly logger: Logger
  readonly metrics: DescribedMetrics | undefined
  /** Takes the fingerprints of the watched keys. `undefined`: nothing is watched. */
  readonly startWatching: ((queue: CommandQueue, message: Message | undefined) => Promise<void>) | undefined
}

interface Attempt<R> {
  readonly terms: TransactionTerms
  readonly work: TransactionWork<R>
  readonly context: Context
  /** From 1. */
  readonly number: number
  readonly scope: TransactionScope
  readonly queue: CommandQueue
}

export type UnitState = 'open' | 'running' | 'committed' | 'over' | 'released' | 'left'

/**
 * One message, from the inbox's claim on it to the commit of its transaction. A transaction outside of an inbox is a unit without a claim, and has a marker
 * of its own.
 *
 *     open ──▶ running     run(): the transaction of the unit. There is one marker, so there is one transaction: a second would find the marker done
 *          ──▶ committed   commitMarker(): no transaction was run, because a middleware inside of the inbox did not call the handler
 *          ──▶ released    release(): the handler failed before it began a transaction
 *
 *     running ──▶ running     the commit met a conflict: the work is run again, in another attempt
 *             ──▶ committed   the commit script wrote the marker and all commands, or nothing was to be written. The afterCommit callbacks run now,
 *                             and what they write is in units of their own
 *             ──▶ released    the work failed, was aborted, or its message was nacked or rejected; or the commit was refused. Nothing was written, and
 *                             the lease is given up, so that the message can be handled at once
 *             ──▶ left        the commit is unknown, partial or undone, or another worker has the marker. The claim is not given up: the marker decides
 *
 *     committed ──▶ over      the afterCommit callbacks have ended
 *
 * `over`, `released` and `left` are final, with one exception: a transaction that was not awaited may get the answer to its commit after release().
 */
export class UnitOfWork {
  readonly #parts: UnitOfWorkParts
  readonly #claim: MarkerClaim | undefined
  #state: UnitState = 'open'

  constructor(parts: UnitOfWorkParts, claim: MarkerClaim | undefined) {
    this.#parts = parts
    this.#claim = claim
  }

  get state(): UnitState {
    return this.#state
  }

  /** Runs the work in the one transaction of this unit. */
  run<R>(terms: TransactionTerms, work: TransactionWork<R>, context: Context): Promise<R> {
    if (this.#state !== 'open') return Promise.reject(secondTransaction(ownerOf(work), this.#state))
    this.#state = 'running'
    return this.#attempt(terms, work, context, 1)
  }

  /** Commits the marker alone. A message that was nacked or rejected is released instead. */
  async commitMarker(message: Message, context: Context): Promise<void> {
    const claim = this.#claim
    if (claim === undefined) return
    if (isSettled(message) && message.state !== 'acked') return await this.release()
    const { marker, token, rule, retention } = claim
    const { queueContext, logger, committer } = this.#parts
    const queue = new CommandQueue(queueContext, new TransactionScope(context, { logger }), () => describeMessage(message), marker)
    const answer = await committer.commit({ rule: { marker: rule, retention, undo: false }, marker, token, queue })
    if (answer.verdict !== 'OK' && answer.verdict !== 'DONE') throw commitError(answer, queue, describeMessage(message), claim)
    this.#state = 'committed'
  }

  /** Gives up the claim, unless the unit has ended. Idempotent. Never rejects. */
  release(): Promise<void> {
    if (this.#state !== 'open' && this.#state !== 'running') return nothing
    this.#state = 'released'
    this.#claim?.stopRenewal()
    return this.#claim?.release() ?? nothing
  }

  // No async/await on the way to a commit: it runs once per message, and saves promises.

  #attempt<R>(terms: TransactionTerms, work: TransactionWork<R>, context: Context, number: number): Promise<R> {
    const scope = new TransactionScope(context, { logger: terms.logger })
    const queue = new CommandQueue(this.#parts.queueContext, scope, () => ownerOf(work), this.#claim?.marker)
    const attempt: Attempt<R> = { terms, work, context, number, scope, queue }
    const worked = (result: R) => this.#worked(attempt, result)
    const failed = (error: unknown) => this.#failed(attempt, error)
    try {
      const paused = probe('transaction.begun')
      return (paused === undefined ? this.#begin(attempt) : paused.then(() => this.#begin(attempt))).then(worked, failed)
    } catch (error) {
      return failed(error)
    }
  }

  #begin<R>(attempt: Attempt<R>): Promise<R> {
    const { terms, queue, work } = attempt
    if (terms.startWatching === undefined) return this.#start(attempt)
    return terms.startWatching(queue, work.message).then(() => this.#start(attempt))
  }

  #start<R>({ work, context, scope, queue }: Attempt<R>): Promise<R> {
    context.signal.throwIfAborted()
    if (work.message !== undefined) scope.hold(work.message)
    let inside = this.#parts.enter(context, queue).with(transactionScopeKey, scope)
    if (this.#claim?.outputIds !== undefined) inside = inside.with(outputIdsKey, this.#claim.outputIds())
    const running: unknown = enter(inside, () => work.run(inside))
    // A user's function may return a plain value, or a promise of another library.
    return running instanceof Promise ? running : Promise.resolve(running as R)
  }

  #worked<R>(attempt: Attempt<R>, result: R): R | Promise<R> {
    const { checks } = attempt.queue
    if (checks === undefined) return this.#finish(attempt, result)
    return checks.then(
      () => this.#finish(attempt, result),
      (error: unknown) => this.#failed(attempt, error),
    )
  }

  #finish<R>(attempt: Attempt<R>, result: R): R | Promise<R> {
    const { work, context, scope, queue } = attempt
    queue.end()
    if (context.signal.aborted) return this.#failed(attempt, context.signal.reason)
    if (scope.rollbackOnly !== undefined) return this.#refused(attempt, scope.rollbackOnly.error, result)
    const problem = this.#claim === undefined ? undefined : work.problemOf?.(result, work.message)
    if (problem !== undefined) return this.#failed(attempt, problem)
    const paused = probe('transaction.beforeCommit')
    return paused === undefined ? this.#commit(attempt, result) : paused.then(() => this.#commit(attempt, result))
  }

  #commit<R>(attempt: Attempt<R>, result: R): R | Promise<R> {
    const { terms, queue } = attempt
    const claim = this.#claim
    if (claim === undefined && queue.isEmpty) return this.#committed(attempt, result)
    const { committer, queueContext, tokens } = this.#parts
    const token = claim?.token ?? tokens()
    const marker = claim?.marker ?? queueContext.space.beside(queue.anchor ?? '', `ackord-tx:${token}`)
    const retention = claim?.retention ?? Math.ceil(terms.replayWindow)
    const rule = { marker: claim?.rule ?? 'own', retention, undo: terms.rollback } as const
    return committer.commit({ rule, marker, token, queue }).then((answer) => this.#answered(attempt, answer, result))
  }

  #answered<R>(attempt: Attempt<R>, answer: CommitAnswer, result: R): R | Promise<R> {
    const { terms, context, number, queue, work } = attempt
    const { verdict } = answer
    if (verdict === 'OK' && answer.detail !== '') queue.stored(answer.detail)
    if (verdict === 'OK' || verdict === 'DONE') return this.#committed(attempt, result)
    if (verdict === 'CONFLICT' && number <= terms.retries && !context.signal.aborted) return this.#again(attempt)
    if (leavesMarker(answer)) this.#state = 'left'
    const error = commitError(answer, queue, ownerOf(work), this.#claim)
    if (verdict === 'UNKNOWN' || verdict === 'PARTIAL') return this.#ended(attempt, 'unknown', error)
    return this.#failed(attempt, error)
  }

  #committed<R>({ scope }: Attempt<R>, result: R): R | Promise<R> {
    this.#state = 'committed'
    this.#claim?.stopRenewal()
    const paused = probe('transaction.afterCommit')
    const ending = paused === undefined ? scope.end('committed') : paused.then(() => scope.end('committed'))
    return ending === undefined ? this.#over(result) : ending.then(() => this.#over(result))
  }

  #over<R>(result: R): R {
    this.#state = 'over'
    return result
  }

  async #again<R>({ terms, work, context, number, scope }: Attempt<R>): Promise<R> {
    await scope.end('rolledBack', { verdicts: 'forget' })
    terms.metrics?.count('ackord.transaction.retries', 1, {})
    const { type, id } = work.message ?? {}
    terms.logger.debug(
      { type, id, retry: number },
      'A key that a transaction expects or watches has changed. The transaction is run again.',
    )
    return await this.#attempt(terms, work, beginAttempt(context), number + 1)
  }

  async #refused<R>({ scope, work }: Attempt<R>, reason: unknown, result: R): Promise<R> {
    // Before the verdict: the message may come again at once.
    await this.release()
    await scope.end('rolledBack')
    // The handler settled the message itself, and that was carried out just now: the router sees it, and publishes no outputs.
    if (work.message !== undefined && isSettled(work.message)) return result
    throw reason
  }

  async #failed<R>(attempt: Attempt<R>, error: unknown): Promise<never> {
    attempt.queue.end()
    await this.release()
    return await this.#ended(attempt, 'rolledBack', error)
  }

  async #ended<R>({ scope }: Attempt<R>, outcome: 'rolledBack' | 'unknown', error: unknown): Promise<never> {
    await scope.end(outcome)
    throw error
  }
}

const nothing: Promise<void> = Promise.resolve()

/** Whether the marker says something else than that this attempt has the message, or is gone. */
function leavesMarker({ verdict }: CommitAnswer): boolean {
  return verdict === 'UNKNOWN' || verdict === 'PARTIAL' || verdict === 'LOST' || verdict === 'FENCED' || verdict === 'UNDONE'
}

/** Without the marker, the writes of a second transaction would be there twice, or not at all, after a crash. */
function secondTransaction(owner: string, state: UnitState): Error {
  const hasFailed = state === 'released' || state === 'left'
  const detail = hasFailed
    ? 'the inbox around it has released the message, because another transaction of it failed. Put code that retries outside of the inbox.'
    : 'the inbox around it commits with one transaction, and has another one. Put transactionMiddleware() inside of the inbox: then all are a part of its own.'
  return new TransactionAbortedError(owner, detail, { retryable: hasFailed })
}

function ownerOf({ message, owner }: Pick<TransactionWork<unknown>, 'message' | 'owner'>): string {
  if (owner !== undefined) return owner
  return message === undefined ? 'redis.write()' : describeMessage(message)
}
