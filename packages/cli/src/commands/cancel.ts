import type { Command } from 'commander'
import { exitCode, usageError } from '../output/errors.ts'
import { checkWhich, chosenPages, isNamed, type WhichOptions } from '../output/records.ts'
import { counted } from '../output/text.ts'
import type { Execute } from '../session.ts'
import { addFilter, storeCommand } from '../settings/settings.ts'
import { openStoreOf, type StoreOptions } from '../stores/open-store.ts'
import { byOption, operatorOf, partOf } from './operator.ts'
import { nothingDone, showChosen } from './rearm.ts'

interface CancelOptions extends StoreOptions, WhichOptions {
  readonly reason?: string | undefined
  readonly by?: string | undefined
  readonly yes?: boolean | undefined
  readonly dryRun?: boolean | undefined
}

export function cancelCommand(execute: Execute): Command {
  return addFilter(storeCommand('cancel'))
    .description(
      'Deletes waiting records, delayed or backing off after a failure, before they are due: their events are never published. Other records are not changed.',
    )
    .argument('[ids...]', 'ids of records, as listed by `ackord list --state waiting`')
    .option('--all', 'all waiting records')
    .option('--reason <text>', 'the reason, for the log')
    .addOption(byOption())
    .option('--yes', 'required with a filter or --all')
    .option('--dry-run', 'list the records without deleting them')
    .action(
      execute(async (session, options: CancelOptions, ids) => {
        const { output } = session
        checkWhich(ids, options)
        const { reason, yes = false, dryRun = false } = options
        if (!dryRun && reason === undefined)
          throw usageError('--reason is missing: it is required, because the events will never be published.')
        if (!dryRun && ids.length === 0 && !yes)
          throw usageError('This deletes every waiting record that matches.', 'Check with --dry-run first, then add --yes.')
        await using store = await openStoreOf(options, session)
        const admin = store.outbox({ logger: output.logger() })
        if (dryRun || reason === undefined) return await showChosen(admin, ids, options, output, 'waiting')
        const cancelWaiting = partOf(admin, 'cancelWaiting')
        const by = operatorOf(options)
        let cancelled = 0
        // Ids as they were given: whether a record still waits is decided by the store, in one step.
        if (ids.length > 0) cancelled = await cancelWaiting(ids, reason, { by })
        else {
          for await (const records of chosenPages(admin, ids, options, 'waiting')) {
            cancelled += await cancelWaiting(
              records.map(({ id }) => id),
              reason,
              { by },
            )
          }
        }
        output.object({ cancelled })
        output.line(`${counted(cancelled, 'record was', 'records were')} cancelled.`)
        return isNamed(ids, options) && cancelled === 0 ? nothingDone(output, ids, 'waiting') : exitCode.ok
      }),
    )
}
