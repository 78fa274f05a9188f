import type { Command } from 'commander'
import { exitCode, usageError } from '../output/errors.ts'
import { checkWhich, chosenPages, type WhichOptions } from '../output/records.ts'
import type { Execute } from '../session.ts'
import { addFilter, storeCommand } from '../settings/settings.ts'
import { openStoreOf, type StoreOptions } from '../stores/open-store.ts'
import { nothingDone, showChosen } from './rearm.ts'

interface DiscardOptions extends StoreOptions, WhichOptions {
  readonly reason?: string | undefined
  readonly yes?: boolean | undefined
  readonly dryRun?: boolean | undefined
}

export function discardCommand(execute: Execute): Command {
  return addFilter(storeCommand('discard'))
    .description('Removes parked records for good: their events are never published. Others are left alone.')
    .argument('[ids...]', 'the records, as `ackord list --state parked` gives them')
    .option('--all', 'all that are parked')
    .option('--reason <text>', 'why, for the log')
    .option('--yes', 'needed with a filter or --all')
    .option('--dry-run', 'show which they are, and remove nothing')
    .action(
      execute(async (session, options: DiscardOptions, ids) => {
        const { output } = session
        checkWhich(ids, options)
        const { reason, yes = false, dryRun = false } = options
        if (!dryRun && reason === undefined) throw usageError('--reason is missing: events that are never published need one.')
        if (!dryRun && ids.length === 0 && !yes)
          throw usageError('This removes every parked record that matches.', 'Look first with --dry-run, then add --yes.')
        await using store = await openStoreOf(options, session)
        const admin = store.outbox({ logger: output.logger() })
        if (dryRun || reason === undefined) return await showChosen(admin, ids, options, output, 'parked')
        let discarded = 0
        for await (const records of chosenPages(admin, ids, options, 'parked')) {
          discarded += await admin.discard(
            records.map(({ id }) => id),
            reason,
          )
        }
        output.object({ discarded })
        output.line(`${discarded} ${discarded === 1 ? 'record was' : 'records were'} removed.`)
        return ids.length > 0 && discarded === 0 ? nothingDone(output, 'parked') : exitCode.ok
      }),
    )
}
