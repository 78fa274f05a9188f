import { InvalidOptionError, idle, type Logger, type Runtime } from '@ackord/core'
import { abortable, checkCount, checkDuration, checkNoMore, describeValue } from '@ackord/core/internal'
import { relayDefaults } from './defaults.ts'
import type { OutboxAdmin } from './outbox-admin.ts'

export interface RelayCleanupOptions {
  /** Milliseconds for which published records are kept, by the store's clock. Default: 24 hours. */
  readonly keepPublished?: number | undefined
  /** Milliseconds between two rounds, ± 10 %. Default: 1 minute. */
  readonly interval?: number | undefined
  /** How many are deleted at a time; a round takes up to 100 such batches. Default: 1,000. */
  readonly batchSize?: number | undefined
}

export interface CleanupSettings {
  readonly keepPublished: number
  readonly interval: number
  readonly batchSize: number
}

export interface PublishedCleanupOptions extends CleanupSettings {
  readonly admin: Pick<OutboxAdmin, 'deletePublished'>
  readonly runtime: Runtime
  readonly logger: Logger
}

const batchesPerRound = 100
/** Between two batches others get at the table. */
const breath = 20
const background = { keepAlive: false }

export function cleanupSettings(cleanup: RelayCleanupOptions | true): CleanupSettings {
  if (cleanup !== true && (typeof cleanup !== 'object' || cleanup === null)) {
    throw new InvalidOptionError('cleanup', `must be true or an object of options; it is ${describeValue(cleanup)}.`)
  }
  const defaults = relayDefaults.cleanup
  const {
    keepPublished = defaults.keepPublished,
    interval = defaults.interval,
    batchSize = defaults.batchSize,
    ...unknown
  } = cleanup === true ? {} : cleanup
  checkNoMore('cleanup', unknown)
  return {
    keepPublished: checkDuration('cleanup.keepPublished', keepPublished),
    interval: checkDuration('cleanup.interval', interval, { min: 1 }),
    batchSize: checkCount('cleanup.batchSize', batchSize),
  }
}

/** Deletes old published records, batch after batch, until the signal is aborted. Never rejects, and never keeps the process alive. */
export async function cleanPublished(options: PublishedCleanupOptions, signal: AbortSignal): Promise<void> {
  const { interval, runtime, logger } = options
  let failing = false
  // Relays that start together do not come together.
  for (let wait = interval * runtime.random(); await idle(runtime, wait, signal, background); ) {
    try {
      await round(options, signal)
      if (failing) logger.info({}, 'Published records are deleted again.')
      failing = false
    } catch (error) {
      if (signal.aborted) return
      if (!failing) logger.warn({ err: error }, 'Deleting published records failed; it is tried again.')
      failing = true
    }
    wait = interval * (0.9 + 0.2 * runtime.random())
  }
}

async function round({ admin, keepPublished, batchSize, runtime }: PublishedCleanupOptions, signal: AbortSignal): Promise<void> {
  for (let batch = 0; batch < batchesPerRound; batch += 1) {
    // A stop does not wait for a delete that hangs; it deletes what it may.
    const deleted = await abortable(admin.deletePublished({ olderThan: keepPublished, limit: batchSize }), signal)
    if (deleted < batchSize) return
    if (!(await idle(runtime, breath, signal, background))) return
  }
}
