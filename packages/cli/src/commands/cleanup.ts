import type { Command } from 'commander'
import { unlessAborted } from '../lifecycle.ts'
import { exitCode } from '../output/errors.ts'
import { counted } from '../output/text.ts'
import type { Execute } from '../session.ts'
import { parseInteger, parsePositiveDuration, setting, storeCommand } from '../settings/settings.ts'
import { openStoreOf, type StoreOptions } from '../stores/open-store.ts'

interface CleanupOptions extends StoreOptions {
  readonly inboxWindow?: number | undefined
  readonly keepPublished?: number | undefined
  readonly batchSize?: number | undefined
}

const day = 86_400_000

export function cleanupCommand(execute: Execute): Command {
  return storeCommand('cleanup')
    .description(
      'Deletes expired inbox entries, old published records, expired idempotency keys and processes that have long finished, once. Run it from a timer; it deletes nothing else.',
    )
    .addOption(
      setting(
        '--inbox-window <duration>',
        'how long the inbox remembers a message; longer than the broker may redeliver one (default: 7d)',
        {
          parse: parsePositiveDuration,
        },
      ),
    )
    .addOption(
      setting('--keep-published <duration>', 'how long published records are kept (default: 24h)', { parse: parsePositiveDuration }),
    )
    .addOption(setting('--batch-size <count>', 'number of rows per delete (default: 1000)', { parse: parseInteger(1, 100_000) }))
    .action(
      execute(
        async (session, options: CleanupOptions) => {
          const { output, signal } = session
          const { inboxWindow = 7 * day, keepPublished = day, batchSize = 1000 } = options
          await using store = await unlessAborted(openStoreOf(options, session), signal)
          const outbox = store.outbox({ logger: output.logger() })
          const result = { inbox_deleted: 0, outbox_deleted: 0, idempotency_deleted: 0, process_deleted: 0 }
          const isSql = store.kind !== 'redis'
          // The inbox markers, the idempotency keys and the finished processes in Redis have a time to live.
          if (isSql)
            result.inbox_deleted = await drain(batchSize, signal, () => store.cleanInbox({ window: inboxWindow, limit: batchSize }))
          const published = { olderThan: keepPublished, limit: batchSize }
          result.outbox_deleted = await drain(batchSize, signal, () => outbox.deletePublished(published))
          if (isSql) result.idempotency_deleted = await drain(batchSize, signal, () => store.cleanIdempotency({ limit: batchSize }))
          if (isSql) result.process_deleted = await drain(batchSize, signal, () => store.cleanProcesses({ limit: batchSize }))
          output.object(result)
          const entries = counted(result.inbox_deleted, 'inbox entry', 'inbox entries')
          const records = counted(result.outbox_deleted, 'published record', 'published records')
          const keys = counted(result.idempotency_deleted, 'idempotency key', 'idempotency keys')
          const processes = counted(result.process_deleted, 'process', 'processes')
          if (isSql) output.line(`Deleted ${entries}, ${records}, ${keys} and ${processes}.`)
          else output.line(`Deleted ${records}. Inbox entries, idempotency keys and finished processes in Redis expire by themselves.`)
          signal.throwIfAborted()
          return exitCode.ok
        },
        { stopsItself: true },
      ),
    )
}

/** Runs batches until one is not full, or the command is stopped. */
async function drain(batchSize: number, signal: AbortSignal, deleteBatch: () => Promise<number>): Promise<number> {
  let total = 0
  while (!signal.aborted) {
    const deleted = await deleteBatch()
    total += deleted
    if (deleted < batchSize) break
  }
  return total
}
