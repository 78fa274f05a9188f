import { idle, type Logger, type Runtime } from '@ackord/core'
import { abortable } from '@ackord/core/internal'
import type { CleanupSettings } from '../options/relay-options.ts'
import type { OutboxAdmin } from '../store/outbox-admin.ts'

export interface PublishedCleanupOptions extends CleanupSettings {
  readonly admin: Pick<OutboxAdmin, 'deletePublished'>
  readonly runtime: Runtime
  readonly logger: Logger
}

const batchesPerRound = 100
/** Pause between two batches, so that other statements get access to the table. */
const batchPause = 20
const background = { keepAlive: false }

/** Deletes old published records, batch after batch, until the signal is aborted. Never rejects, and never keeps the process alive. */
export async function cleanPublished(options: PublishedCleanupOptions, signal: AbortSignal): Promise<void> {
  const { interval, runtime, logger } = options
  let failing = false
  // Spreads the cleanups of relays that start together.
  for (let wait = interval * runtime.random(); await idle(runtime, wait, signal, background); ) {
    try {
      await round(options, signal)
      if (failing) logger.info({}, 'Deleting published records works again.')
      failing = false
    } catch (error) {
      if (signal.aborted) return
      if (!failing) logger.warn({ err: error }, 'Deleting published records failed; it will be retried.')
      failing = true
    }
    wait = interval * (0.9 + 0.2 * runtime.random())
  }
}

async function round({ admin, keepPublished, batchSize, runtime }: PublishedCleanupOptions, signal: AbortSignal): Promise<void> {
  for (let batch = 0; batch < batchesPerRound; batch += 1) {
    // A stop does not wait for a delete that hangs; the delete may still complete.
    const deleted = await abortable(admin.deletePublished({ olderThan: keepPublished, limit: batchSize }), signal)
    if (deleted < batchSize) return
    if (!(await idle(runtime, batchPause, signal, background))) return
  }
}
