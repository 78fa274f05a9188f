import {
  beginAttempt,
  type Context,
  consoleLogger,
  enter,
  type Logger,
  type Message,
  type Metrics,
  outputIdsKey,
  probe,
  StoreRefusesWritesError,
  TransactionScope,
  transactionScopeKey,
} from '@ackord/core'
import { checkCount, checkDuration, checkFunction, checkNoMore, guardLogger, guardMetrics, isSettled, nameOf } from '@ackord/core/internal'
import { type RedisKey, shownKey, toKey } from '../client/argument.ts'
import { callFailureOf, isRefusalOfWrites } from '../client/call-failure.ts'
import { CommitUnknownError, LeaseLostError, PartialCommitError, TransactionAbortedError, TransactionConflictError } from '../errors.ts'
import { CommandQueue } from './command-queue.ts'
import { placeOf } from './commit-plan.ts'
import type { CommitAnswer } from './committer.ts'
import type { InboxClaim } from './inbox-claim.ts'
import type { RedisInternals } from './redis.ts'
import { fingerprintScript } from './resolve-script.ts'
import { nestedTransaction } from './transaction.ts'

/** Of a transaction inside of another one only `watch` counts; it commits with the outer one, as that one is told to. */
export interface TransactionOptions {
  /** How often a transaction is run again, work included, because what it expected or watched was changed by somebody else. Default: 3. */
  readonly retries?: number | undefined
  /**
   * Keys that are read before they are written: the transaction commits only if none of them has changed since it began. Costs a round trip,
   * and time by the size of the keys: for a large one use `transaction.expect()` or `expectField()`. Default: none.
   */
  readonly watch?: readonly RedisKey[] | ((message: Message) => readonly RedisKey[]) | undefined
  /**
   * Whether what was carried out is undone when a command fails. Every key is saved before, up to 1,000 elements or 64 kB; if a larger one
   * was written to, the commit stays partial. Needs the right to RESTORE. Default: false.
   */
  readonly rollback?: boolean | undefined
  /**
   * Milliseconds for which a commit without an inbox is remembered, so that a client that sends it again after a lost connection does not
   * double it. It must be longer than the client keeps commands back. Default: 1 minute.
   */
  readonly replayWindow?: number | undefined
  /** Default: the one of the Redis object. */
  readonly logger?: Logger | undefined
  /** Counts `ackord.transaction.retries`. Default: none. */
  readonly metrics?: Metrics | undefined
}

/** What is done in one transaction. */
export interface TransactionWork<R> {
  /** The one that is being handled, whose verdicts wait for the end; `undefined` outside of a router. */
  readonly message: Message | undefined
  readonly run: (context: Context) => Promise<R>
  /** What keeps a result from being committed with an inbox. Default: nothing. */
  readonly problemOf?: ((result: R, message: Message | undefined) => Error | undefined) | undefined
}

export type RunTransaction = <R>(work: TransactionWork<R>, context: Context) => Promise<R>

/** Another delivery of the message was committed while this one was handled. Nothing was written; the inbox acks it. */
export class OvertakenError extends LeaseLostError {}

export function transactionRunner(internals: RedisInternals, caller: string, options: TransactionOptions): RunTransaction {
  const { retries = 3, watch, rollback = false, replayWindow = 60_000, logger: given, metrics: givenMetrics, ...unknown } = options
  checkNoMore(caller, unknown)
  checkCount('retries', retries, { min: 0 })
  checkDuration('replayWindow', replayWindow, { min: 1 })
  if (watch !== undefined && !Array.isArray(watch)) checkFunction('watch', watch)
  const logger = guardLogger(given ?? internals.logger ?? consoleLogger)
  const metrics = givenMetrics === undefined ? undefined : guardMetrics(givenMetrics)
  const { committer, home, tokens } = internals

  function keysOf(message: Message | undefined): readonly RedisKey[] {
    if (typeof watch !== 'function') return watch ?? []
    return message === undefined ? [] : watch(message)
  }

  async function startWatching(queue: CommandQueue, message: Message | undefined): Promise<void> {
    const keys = keysOf(message).map((key) => toKey('watch', key))
    if (keys.length === 0) return
    for (const key of keys) queue.checkKey(key)
    const prints = (await internals.port.evaluate(fingerprintScript, keys, [])) as readonly unknown[]
    keys.forEach((key, index) => {
      queue.guard({ key, value: String(prints[index]), whole: true })
    })
  }

  /** Chained by hand: it runs once per message. */
  function attempt<R>(work: TransactionWork<R>, context: Context, claim: InboxClaim | undefined, run: number): Promise<R> {
    const { signal } = context
    const { message } = work
    const owner = () => ownerOf(message)
    const scope = new TransactionScope(context, { logger })
    const queue = new CommandQueue(home, scope, owner, claim?.marker)

    function start(): Promise<R> {
      signal.throwIfAborted()
      if (message !== undefined) scope.hold(message)
      let inside = internals.enter(context, queue).with(transactionScopeKey, scope)
      if (claim !== undefined) inside = inside.with(outputIdsKey, claim.outputIds())
      const running: unknown = enter(inside, () => work.run(inside))
      // What users give may be no promise, or another kind of one.
      return running instanceof Promise ? running : Promise.resolve(running as R)
    }

    function worked(result: R): R | Promise<R> {
      const { checks } = queue
      return checks === undefined ? finish(result) : checks.then(() => finish(result), failed)
    }

    function finish(result: R): R | Promise<R> {
      queue.end()
      if (signal.aborted) return failed(signal.reason)
      if (scope.rollbackOnly !== undefined) return refused(scope.rollbackOnly.error, result)
      const problem = claim === undefined ? undefined : work.problemOf?.(result, message)
      if (problem !== undefined) return failed(problem)
      const paused = probe('transaction.beforeCommit')
      return paused === undefined ? commit(result) : paused.then(() => commit(result))
    }

    function commit(result: R): R | Promise<R> {
      if (claim === undefined && queue.isEmpty) return committed(result)
      const token = claim?.token ?? tokens()
      const marker = claim?.marker ?? home.space.beside(queue.anchor ?? '', `ackord-tx:${token}`)
      const rule = { marker: claim?.rule ?? 'own', retention: claim?.retention ?? Math.ceil(replayWindow), undo: rollback } as const
      return committer.commit({ rule, marker, token, queue }).then((answer) => answered(answer, result))
    }

    function answered(answer: CommitAnswer, result: R): R | Promise<R> {
      const { verdict } = answer
      if (verdict === 'OK' && answer.detail !== '') queue.stored(answer.detail)
      if (verdict === 'OK' || verdict === 'DONE') return committed(result)
      if (verdict === 'CONFLICT' && run <= retries && !signal.aborted) return again()
      if (claim !== undefined && leavesMarker(answer)) claim.state = 'left'
      const error = errorOf(answer, queue, owner(), claim)
      if (verdict === 'UNKNOWN' || verdict === 'PARTIAL') return ended('unknown', error)
      return failed(error)
    }

    function committed(result: R): R | Promise<R> {
      if (claim !== undefined) {
        claim.state = 'committed'
        claim.stopKeeping?.()
      }
      const paused = probe('transaction.afterCommit')
      const ending = paused === undefined ? scope.end('committed') : paused.then(() => scope.end('committed'))
      return ending === undefined ? over(result) : ending.then(() => over(result))
    }

    function over(result: R): R {
      if (claim !== undefined) claim.state = 'over'
      return result
    }

    async function again(): Promise<R> {
      await scope.end('rolledBack', { verdicts: 'forget' })
      metrics?.count('ackord.transaction.retries', 1, {})
      logger.debug({ type: message?.type, id: message?.id, retry: run }, 'What the transaction expected had changed, and it is run again.')
      return await attempt(work, beginAttempt(context), claim, run + 1)
    }

    async function refused(reason: unknown, result: R): Promise<R> {
      // Before the verdict: the message may come again at once.
      await claim?.release()
      await scope.end('rolledBack')
      // The handler gave its verdict itself and it was carried out just now: the router sees that, and keeps the outputs back.
      if (message !== undefined && isSettled(message)) return result
      throw reason
    }

    async function failed(error: unknown): Promise<never> {
      queue.end()
      await claim?.release()
      return await ended('rolledBack', error)
    }

    async function ended(outcome: 'rolledBack' | 'unknown', error: unknown): Promise<never> {
      await scope.end(outcome)
      throw error
    }

    try {
      const paused = probe('transaction.begun')
      const begin = () => (watch === undefined ? start() : startWatching(queue, message).then(start))
      return (paused === undefined ? begin() : paused.then(begin)).then(worked, failed)
    } catch (error) {
      return failed(error)
    }
  }

  return function runTransaction(work, context) {
    const outer = internals.find(context)
    if (outer !== undefined) return nestedTransaction(internals, outer, work, context, startWatching)
    const claim = internals.findClaim(context)
    // What an afterCommit callback writes has no marker: the message is done.
    if (claim === undefined || claim.state === 'committed') return attempt(work, context, undefined, 1)
    if (claim.taken || claim.state !== 'open') return Promise.reject(secondTransaction(ownerOf(work.message), claim))
    claim.taken = true
    return attempt(work, context, claim, 1)
  }
}

/** Without the marker its writes would be there twice, or not at all, after a crash. */
function secondTransaction(owner: string, { state }: InboxClaim): Error {
  const givenUp = state === 'released' || state === 'left'
  const detail = givenUp
    ? 'the inbox around it has given the message up, because another transaction of it failed. What tries again belongs outside of the inbox.'
    : 'the inbox around it commits with one transaction, and has another one. Put transactionMiddleware() inside of the inbox: then all are a part of its own.'
  return new TransactionAbortedError(owner, detail, { retryable: givenUp })
}

function ownerOf(message: Message | undefined): string {
  return message === undefined ? 'redis.write()' : nameOf(message)
}

/** Whether the marker says more than that this attempt has it, or is gone. */
function leavesMarker({ verdict }: CommitAnswer): boolean {
  return verdict === 'UNKNOWN' || verdict === 'PARTIAL' || verdict === 'LOST' || verdict === 'FENCED' || verdict === 'UNDONE'
}

/** What a commit that did not succeed is to the handler's caller. */
export function errorOf(
  { verdict, detail, cause }: CommitAnswer,
  queue: CommandQueue,
  owner: string,
  claim: InboxClaim | undefined,
): Error {
  const [number = '', ...words] = detail.split(' ')
  const text = words.join(' ')
  const { name, key } = placeOf(queue, Number(number))
  const of = key === undefined ? name : `${name} of ${shownKey(key)}`
  switch (verdict) {
    case 'PARTIAL':
      return new PartialCommitError(owner, `${of}: ${text}`)
    case 'UNKNOWN':
      return new CommitUnknownError(owner, cause)
    case 'CONFLICT':
      return new TransactionConflictError(owner, key)
    case 'TYPE':
      return new TransactionAbortedError(owner, `${of} is not possible, because the key holds a ${text}. Look at what else writes to it.`)
    case 'VALUE':
      return new TransactionAbortedError(owner, `${of} is not possible: ${text}.`)
    case 'MISSING':
      return new TransactionAbortedError(owner, `${of} is not possible, because there is no such key.`)
    case 'EVENT':
      return new TransactionAbortedError(owner, eventProblem(text), { retryable: !text.startsWith('CONFLICT') })
    case 'UNDONE':
      return new TransactionAbortedError(owner, `${of} failed, and what came before it was undone: ${text}.`)
    case 'REFUSED':
      return refusedBy(owner, detail, undefined)
    case 'FENCED':
      return fencedError(owner, cause)
    case 'LOST':
      if (detail.startsWith('partial:')) return new PartialCommitError(owner, detail)
      // Anything else is no proof that it is done: a worker of another mode has it, or somebody wrote there.
      return claim?.rule === 'once' && detail.startsWith('done:') ? new OvertakenError(owner) : new LeaseLostError(owner)
    default:
      return new TransactionAbortedError(owner, `the commit script answered ${verdict} ${detail}.`)
  }
}

/** It did not get through, and never will. Why, is told by the call that failed. */
function fencedError(owner: string, cause: unknown): Error {
  const { kind, text } = callFailureOf(cause)
  switch (kind) {
    case 'refusesWrites':
    case 'server':
      return refusedBy(owner, text, cause)
    case 'process':
      return new TransactionAbortedError(owner, `this process could not send it: ${text}.`, { cause, retryable: false })
    default:
      return new TransactionAbortedError(owner, 'Redis did not answer, and was then told not to take it any more.', { cause })
  }
}

function refusedBy(owner: string, text: string, cause: unknown): Error {
  if (isRefusalOfWrites(text)) return new StoreRefusesWritesError('Redis', text, { cause })
  const why = /^(?:TRYAGAIN|MOVED|ASK)\b/.test(text) ? 'the slot of its keys is being moved to another node' : 'Redis refused it'
  return new TransactionAbortedError(owner, `${why}: ${text}.`, { cause })
}

/** Why the outbox takes none of a transaction's events. */
function eventProblem(text: string): string {
  if (!text.startsWith('CONFLICT')) return `the outbox cannot be used: ${text}.`
  return "the outbox holds another event with the id of one of its own, and it says something else. Give each event an id of its own, or set the outbox's onConflict: 'ignore'."
}
