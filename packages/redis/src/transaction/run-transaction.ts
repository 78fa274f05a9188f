import type { Context, Logger, Message, Metrics, Part } from '@ackord/core'
import { checkCount, checkDuration, checkFunction, PartPorts, rejectUnknownOptions } from '@ackord/core/internal'
import { type RedisKey, toKey } from '../client/argument.ts'
import type { CommandQueue } from './command-queue.ts'
import { fingerprintScript } from './committer.ts'
import { nestedTransaction } from './nested-transaction.ts'
import type { RedisInternals } from './redis-internals.ts'
import { type TransactionTerms, type TransactionWork, UnitOfWork } from './unit-of-work.ts'

/** A nested transaction uses only `watch`; it commits with the outer one, by the options of that one. */
export interface TransactionOptions {
  /** How often a transaction and its work are run again because another client changed a key that it expects or watches. Default: 3. */
  readonly retries?: number | undefined
  /**
   * Keys that are read before they are written: the transaction commits only if none of them has changed since it began. Costs a round trip,
   * and time proportional to the size of the keys: for a large one use `transaction.expect()` or `expectField()`. Default: none.
   */
  readonly watch?: readonly RedisKey[] | ((message: Message) => readonly RedisKey[]) | undefined
  /**
   * Whether the commands before a failed one are undone. Every key is saved before it is written, up to 1,000 elements or 64 kB; if a larger key
   * was written, the commit stays partial. Requires the permission for RESTORE. Default: false.
   */
  readonly rollback?: boolean | undefined
  /**
   * Milliseconds for which a commit without an inbox is remembered, so that it is not applied twice when the client sends it again after a lost
   * connection. It must be longer than the client queues commands. Default: 1 minute.
   */
  readonly replayWindow?: number | undefined
  /** Default: the logger of the Redis object. */
  readonly logger?: Logger | undefined
  /** Counts `ackord.transaction.retries`. Default: none. */
  readonly metrics?: Metrics | undefined
}

export type RunTransaction = <R>(work: TransactionWork<R>, context: Context) => Promise<R>

export function transactionRunner(internals: RedisInternals, caller: string, options: TransactionOptions): RunTransaction & Required<Part> {
  const { retries = 3, watch, rollback = false, replayWindow = 60_000, logger: given, metrics: givenMetrics, ...unknown } = options
  rejectUnknownOptions(caller, unknown)
  checkCount('retries', retries, { min: 0 })
  checkDuration('replayWindow', replayWindow, { min: 1 })
  if (watch !== undefined && !Array.isArray(watch)) checkFunction('watch', watch)
  const ports = new PartPorts({ logger: given ?? internals.logger, metrics: givenMetrics }, [internals.ports])
  const terms: TransactionTerms = {
    retries,
    rollback,
    replayWindow,
    logger: ports.logger,
    get metrics() {
      return ports.metrics
    },
    startWatching: watch === undefined ? undefined : startWatching,
  }

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

  const runTransaction: RunTransaction = (work, context) => {
    const outer = internals.find(context)
    if (outer !== undefined) return nestedTransaction(internals, outer, work, context, terms)
    const unit = internals.findUnit(context)
    // The writes of an afterCommit callback need no marker: the message is done.
    if (unit === undefined || unit.state === 'committed' || work.claim !== undefined) {
      return new UnitOfWork(internals, work.claim).run(terms, work, context)
    }
    return unit.run(terms, work, context)
  }
  return Object.assign(runTransaction, { inheritPorts: ports.inheritPorts })
}
