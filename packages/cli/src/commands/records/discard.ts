import type { OutboxAdmin } from '@ackord/outbox'
import type { Command } from 'commander'
import { exitCode, usageError } from '../../output/errors.ts'
import { checkWhich, chosenPages, isNamed, type WhichOptions } from '../../output/records.ts'
import { counted } from '../../output/text.ts'
import type { Execute } from '../../session.ts'
import { byOption, operatorOf, partOf } from '../../settings/operator.ts'
import { addFilter, storeCommand } from '../../settings/settings.ts'
import { openStoreOf, type StoreOptions } from '../../stores/open-store.ts'
import { nothingDone, showChosen } from './rearm.ts'

interface DeleteOptions extends StoreOptions, WhichOptions {
  readonly reason?: string | undefined
  readonly by?: string | undefined
  readonly yes?: boolean | undefined
  readonly dryRun?: boolean | undefined
}

/** What the two commands that delete records differ in. */
interface Deletion {
  readonly name: 'discard' | 'cancel'
  readonly description: string
  /** Records in other states are not changed. */
  readonly state: 'parked' | 'waiting'
  /** The field of the JSON output. */
  readonly result: 'discarded' | 'cancelled'
  readonly done: string
  readonly deleteRecords: (admin: OutboxAdmin, ids: readonly string[], reason: string, by: string | undefined) => Promise<number>
}

export function discardCommand(execute: Execute): Command {
  return deletingCommand(execute, {
    name: 'discard',
    description: 'Deletes parked records permanently: their events are never published. Other records are not changed.',
    state: 'parked',
    result: 'discarded',
    done: 'deleted',
    deleteRecords: (admin, ids, reason, by) => admin.discard(ids, reason, { by }),
  })
}

export function cancelCommand(execute: Execute): Command {
  return deletingCommand(execute, {
    name: 'cancel',
    description:
      'Deletes waiting records, delayed or backing off after a failure, before they are due: their events are never published. Other records are not changed.',
    state: 'waiting',
    result: 'cancelled',
    done: 'cancelled',
    deleteRecords: (admin, ids, reason, by) => partOf(admin, 'cancelWaiting')(ids, reason, { by }),
  })
}

function deletingCommand(execute: Execute, { name, description, state, result, done, deleteRecords }: Deletion): Command {
  return addFilter(storeCommand(name))
    .description(description)
    .argument('[ids...]', `ids of records, as listed by \`ackord list --state ${state}\``)
    .option('--all', `all ${state} records`)
    .option('--reason <text>', 'the reason, for the log')
    .addOption(byOption())
    .option('--yes', 'required with a filter or --all')
    .option('--dry-run', 'list the records without deleting them')
    .action(
      execute(async (session, options: DeleteOptions, ids) => {
        const { output } = session
        checkWhich(ids, options)
        const { reason, yes = false, dryRun = false } = options
        if (!dryRun && reason === undefined)
          throw usageError('--reason is missing: it is required, because the events will never be published.')
        if (!dryRun && ids.length === 0 && !yes)
          throw usageError(`This deletes every ${state} record that matches.`, 'Check with --dry-run first, then add --yes.')
        await using store = await openStoreOf(options, session)
        const admin = store.outbox({ logger: output.logger() })
        if (dryRun || reason === undefined) return await showChosen(admin, ids, options, output, state)
        let count = 0
        for await (const records of chosenPages(admin, ids, options, state)) {
          count += await deleteRecords(
            admin,
            records.map(({ id }) => id),
            reason,
            operatorOf(options),
          )
        }
        output.object({ [result]: count })
        output.line(`${counted(count, 'record was', 'records were')} ${done}.`)
        return isNamed(ids, options) && count === 0 ? nothingDone(output, ids, state) : exitCode.ok
      }),
    )
}
