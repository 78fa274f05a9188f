import type { Command } from 'commander'
import { exitCode, usageError } from '../../output/errors.ts'
import { checkIds, matchingPages } from '../../output/records.ts'
import { counted } from '../../output/text.ts'
import type { Execute } from '../../session.ts'
import { byOption, operatorOf } from '../../settings/operator.ts'
import { messageIdOption, storeCommand } from '../../settings/settings.ts'
import { openStoreOf, type StoreOptions } from '../../stores/open-store.ts'

interface ParkOptions extends StoreOptions {
  readonly messageId?: string | undefined
  readonly reason?: string | undefined
  readonly by?: string | undefined
}

export function parkCommand(execute: Execute): Command {
  return storeCommand('park')
    .description(
      'Prevents ready and waiting records from being published until `ackord rearm`. Records that a relay has leased are not changed.',
    )
    .argument('[ids...]', 'ids of records, as listed by `ackord list`')
    .addOption(messageIdOption('instead of ids: the records of the message with this id'))
    .option('--reason <text>', 'the reason; shown as the error of the record')
    .addOption(byOption())
    .action(
      execute(async (session, options: ParkOptions, ids) => {
        const { output } = session
        const { reason, messageId } = options
        checkIds(ids, options)
        if (reason === undefined) throw usageError('--reason is missing: it is required, so that others can see why the record is parked.')
        await using store = await openStoreOf(options, session)
        const admin = store.outbox({ logger: output.logger() })
        const chosen = [...ids]
        if (messageId !== undefined) {
          for await (const records of matchingPages(admin, { messageId })) chosen.push(...records.map(({ id }) => id))
        }
        const parked = await admin.park(chosen, reason, { by: operatorOf(options) })
        output.object({ parked })
        output.line(`${counted(parked, 'record was', 'records were')} parked.`)
        if (parked > 0) return exitCode.ok
        output.line(
          messageId === undefined
            ? 'None of these ids belongs to a record that is ready or waiting.'
            : 'No record that is ready or waiting has this message id.',
        )
        return exitCode.failed
      }),
    )
}
