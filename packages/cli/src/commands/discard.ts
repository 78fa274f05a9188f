import type { Command } from 'commander'
import { exitCode, usageError } from '../output/errors.ts'
import { checkWhich, chosenPages, isNamed, type WhichOptions } from '../output/records.ts'
import { counted } from '../output/text.ts'
import type { Execute } from '../session.ts'
import { byOption, operatorOf } from '../settings/operator.ts'
import { addFilter, storeCommand } from '../settings/settings.ts'
import { openStoreOf, type StoreOptions } from '../stores/open-store.ts'
import { nothingDone, showChosen } from './rearm.ts'

interface DiscardOptions extends StoreOptions, WhichOptions {
  readonly reason?: string | undefined
  readonly by?: string | undefined
  readonly yes?: boolean | undefined
  readonly dryRun?: boolean | undefined
}

export function discardCommand(execute: Execute): Command {
  return addFilter(storeCommand('discard'))
    .description('Deletes parked records permanently: their events are never published. Other records are not changed.')
    .argument('[ids...]', 'ids of records, as listed by `ackord list --state parked`')
    .option('--all', 'all parked records')
    .option('--reason <text>', 'the reason, for the log')
    .addOption(byOption())
    .option('--yes', 'required with a filter or --all')
    .option('--dry-run', 'list the records without deleting them')
    .action(
      execute(async (session, options: DiscardOptions, ids) => {
        const { output } = session
        checkWhich(ids, options)
        const { reason, yes = false, dryRun = false } = options
        if (!dryRun && reason === undefined)
          throw usageError('--reason is missing: it is required, because the events will never be published.')
        if (!dryRun && ids.length === 0 && !yes)
          throw usageError('This deletes every parked record that matches.', 'Check with --dry-run first, then add --yes.')
        await using store = await openStoreOf(options, session)
        const admin = store.outbox({ logger: output.logger() })
        if (dryRun || reason === undefined) return await showChosen(admin, ids, options, output, 'parked')
        let discarded = 0
        for await (const records of chosenPages(admin, ids, options, 'parked')) {
          discarded += await admin.discard(
            records.map(({ id }) => id),
            reason,
            { by: operatorOf(options) },
          )
        }
        output.object({ discarded })
        output.line(`${counted(discarded, 'record was', 'records were')} deleted.`)
        return isNamed(ids, options) && discarded === 0 ? nothingDone(output, ids, 'parked') : exitCode.ok
      }),
    )
}
