import type { Logger } from '@ackord/core'
import { checkCount, checkDuration, guardLogger, rejectUnknownOptions } from '@ackord/core/internal'
import { contextOf } from '../context.ts'
import type { LuaOutbox } from '../lua-outbox.ts'
import { RoundRunner, type RunnerHealth } from '../round-runner.ts'
import { type RepairReport, repairLuaOutbox } from './repair.ts'

export interface RepairWorkerOptions {
  /** Milliseconds between two rounds, ± 10 %. Default: 1 minute. */
  readonly interval?: number | undefined
  /** About how many index entries one script reads. Default: 200. */
  readonly batchSize?: number | undefined
  /** The maximum number of such steps in a round on each shard; the next round continues. Default: 100. */
  readonly batches?: number | undefined
  /** Default: the logger of the outbox. */
  readonly logger?: Logger | undefined
}

export interface RepairWorkerHealth extends RunnerHealth {
  /** The report of the last round. */
  readonly lastReport: RepairReport | undefined
}

/** Repairs an outbox periodically. It does not keep the process alive. */
export interface RepairWorker extends AsyncDisposable {
  /** Has no effect if it runs already. */
  start(): this
  /** Resolves when the current step has ended. Idempotent in every state. */
  stop(): Promise<void>
  health(): RepairWorkerHealth
}

/** Any number of processes may run one: each shard is repaired by one at a time, and the next continues where that one stopped. */
export function repairWorker(outbox: LuaOutbox, options: RepairWorkerOptions = {}): RepairWorker {
  const context = contextOf(outbox)
  const { interval = 60_000, batchSize = 200, batches = 100, logger = context.logger, ...unknown } = options
  rejectUnknownOptions('repairWorker()', unknown)
  checkDuration('interval', interval, { min: 1 })
  checkCount('batchSize', batchSize)
  checkCount('batches', batches)
  const { runtime } = context
  let lastReport: RepairReport | undefined

  async function round(signal: AbortSignal): Promise<number> {
    lastReport = await repairLuaOutbox(outbox, { batchSize, batches, resume: true, signal })
    return interval * (0.9 + 0.2 * runtime.random())
  }

  const runner = new RoundRunner({ name: 'repair of the outbox', round, runtime, logger: guardLogger(logger), keepAlive: false })
  const worker: RepairWorker = {
    start() {
      // Processes that start together do not run their rounds together.
      runner.start(interval * runtime.random())
      return worker
    },
    stop: () => runner.stop(),
    health: () => ({ ...runner.health(), lastReport }),
    [Symbol.asyncDispose]: () => runner.stop(),
  }
  return worker
}
