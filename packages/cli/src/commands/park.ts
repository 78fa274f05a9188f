import type { Command } from 'commander'
import { exitCode, usageError } from '../output/errors.ts'
import type { Execute } from '../session.ts'
import { storeCommand } from '../settings/settings.ts'
import { openStoreOf, type StoreOptions } from '../stores/open-store.ts'

interface ParkOptions extends StoreOptions {
  readonly reason?: string | undefined
}

export function parkCommand(execute: Execute): Command {
  return storeCommand('park')
    .description(
      'Prevents ready and waiting records from being published until `ackord rearm`. Records that a relay has leased are not changed.',
    )
    .argument('<ids...>', 'ids of records, as listed by `ackord list`')
    .option('--reason <text>', 'the reason; shown as the error of the record')
    .action(
      execute(async (session, options: ParkOptions, ids) => {
        const { output } = session
        const { reason } = options
        if (reason === undefined) throw usageError('--reason is missing: it is required, so that others can see why the record is parked.')
        await using store = await openStoreOf(options, session)
        const parked = await store.outbox({ logger: output.logger() }).park(ids, reason)
        output.object({ parked })
        output.line(`${parked} ${parked === 1 ? 'record was' : 'records were'} parked.`)
        if (parked > 0) return exitCode.ok
        output.line('None of these ids belongs to a record that is ready or waiting.')
        return exitCode.failed
      }),
    )
}
