import type { Logger } from '@ackord/core'
import { checkCount, checkDuration, checkNoMore, guardLogger } from '@ackord/core/internal'
import { homeOf } from '../context.ts'
import type { LuaOutbox } from '../lua-outbox.ts'
import { RoundRunner, type RunnerHealth } from '../round-runner.ts'
import { type RepairReport, repairLuaOutbox } from './repair.ts'

export interface RepairWorkerOptions {
  /** Milliseconds between two rounds, ± 10 %. Default: 1 minute. */
  readonly interval?: number | undefined
  /** About how many entries of an index one script looks at. Default: 200. */
  readonly batchSize?: number | undefined
  /** How many such steps a round takes on each shard; the next one goes on. Default: 100. */
  readonly batches?: number | undefined
  /** Default: that of the outbox. */
  readonly logger?: Logger | undefined
}

export interface RepairWorkerHealth extends RunnerHealth {
  /** What the last round did. */
  readonly lastReport: RepairReport | undefined
}

/** Repairs an outbox from time to time. It does not keep the process alive. */
export interface RepairWorker extends AsyncDisposable {
  /** One that runs goes on as it does. */
  start(): this
  /** Resolves when the step in hand is done. Idempotent in every state. */
  stop(): Promise<void>
  health(): RepairWorkerHealth
}

/** Any number of processes may have one: of each shard one at a time is repaired, and the next goes on where that one stopped. */
export function repairWorker(outbox: LuaOutbox, options: RepairWorkerOptions = {}): RepairWorker {
  const home = homeOf(outbox)
  const { interval = 60_000, batchSize = 200, batches = 100, logger = home.logger, ...unknown } = options
  checkNoMore('repairWorker()', unknown)
  checkDuration('interval', interval, { min: 1 })
  checkCount('batchSize', batchSize)
  checkCount('batches', batches)
  const { runtime } = home
  let lastReport: RepairReport | undefined

  async function round(signal: AbortSignal): Promise<number> {
    lastReport = await repairLuaOutbox(outbox, { batchSize, batches, resume: true, signal })
    return interval * (0.9 + 0.2 * runtime.random())
  }

  const runner = new RoundRunner({ name: 'repair of the outbox', round, runtime, logger: guardLogger(logger), keepAlive: false })
  const worker: RepairWorker = {
    start() {
      // Processes that start together do not come together.
      runner.start(interval * runtime.random())
      return worker
    },
    stop: () => runner.stop(),
    health: () => ({ ...runner.health(), lastReport }),
    [Symbol.asyncDispose]: () => runner.stop(),
  }
  return worker
}
