import type { Logger, Metrics } from '@ackord/core'
import { checkCount, checkDuration, checkFunction, guardLogger, guardMetrics, rejectUnknownOptions } from '@ackord/core/internal'
import { contextOf } from '../context.ts'
import { RoundRunner, type RunnerHealth } from '../round-runner.ts'
import type { ExpiryDecision, ExpiryEvent, LuaExpiry } from './lua-expiry.ts'

export interface ExpiryWorkerOptions {
  /** The maximum number of decisions in a round; the next round follows at once if there were as many. Default: 100. */
  readonly batchSize?: number | undefined
  /** The maximum milliseconds between two rounds, up to 20 % less: how late an expiry may be that was recorded meanwhile. Known expiries are decided on time. Default: 1,000. */
  readonly pollInterval?: number | undefined
  /** Default: the logger of the outbox. */
  readonly logger?: Logger | undefined
  /** Sets `ackord.outbox.expiry_lag`, how late the oldest expiry of a round is. Default: the metrics of the outbox. */
  readonly metrics?: Metrics | undefined
}

export interface ExpiryWorkerHealth extends RunnerHealth {
  /** Since the worker was created. */
  readonly decisions: Readonly<Record<ExpiryDecision, number>>
}

/** Decides due expiries. Does nothing until it is started. */
export interface ExpiryWorker extends AsyncDisposable {
  /** Begins at once, and goes on until `stop()`. Has no effect if it runs already. */
  start(): this
  /** Resolves when the decisions that have begun are made. Idempotent in every state. */
  stop(): Promise<void>
  health(): ExpiryWorkerHealth
}

const jitter = 0.2

/** Any number of workers may run, in any number of processes: they make the same decisions, and each counts once. */
export function expiryWorker(expiry: LuaExpiry, event: ExpiryEvent, options: ExpiryWorkerOptions = {}): ExpiryWorker {
  const context = contextOf(expiry)
  const { batchSize = 100, pollInterval = 1000, logger = context.logger, metrics, ...unknown } = options
  rejectUnknownOptions('expiryWorker()', unknown)
  checkFunction('event', event)
  checkCount('batchSize', batchSize)
  checkDuration('pollInterval', pollInterval, { min: 1 })
  const meter = metrics === undefined ? undefined : guardMetrics(metrics)
  const { runtime } = context
  const decisions: Record<ExpiryDecision, number> = { enqueued: 0, duplicate: 0, revoked: 0, not_due: 0, parked: 0 }

  async function round(signal: AbortSignal): Promise<number> {
    const { expiries, now, nextIn } = await expiry.dueExpiries(batchSize)
    const [oldest] = expiries
    // The outbox may inherit its metrics later.
    const current = meter ?? context.metrics
    current?.gauge('ackord.outbox.expiry_lag', oldest === undefined || Number.isNaN(oldest.dueAt) ? 0 : now - oldest.dueAt, {})
    if (signal.aborted) return 0
    // A failed decision does not keep the others from being made; it is tried again.
    const results = await Promise.allSettled(expiries.map((due) => expiry.decideExpiry(due, event)))
    const failed = results.find((result) => result.status === 'rejected')
    for (const result of results) if (result.status === 'fulfilled') decisions[result.value] += 1
    if (failed !== undefined) throw failed.reason
    const isDone = results.some((result) => result.status === 'fulfilled' && result.value !== 'not_due')
    if (expiries.length === batchSize && isDone) return 0
    return Math.min(nextIn ?? Infinity, pollInterval * (1 - jitter * runtime.random()))
  }

  const runner = new RoundRunner({ name: 'expiry worker', round, runtime, logger: guardLogger(logger), keepAlive: true })
  const worker: ExpiryWorker = {
    start() {
      runner.start()
      return worker
    },
    stop: () => runner.stop(),
    health: () => ({ ...runner.health(), decisions: { ...decisions } }),
    [Symbol.asyncDispose]: () => runner.stop(),
  }
  return worker
}
