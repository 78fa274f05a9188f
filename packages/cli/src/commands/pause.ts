import type { Command } from 'commander'
import { exitCode, usageError } from '../output/errors.ts'
import { printable } from '../output/text.ts'
import type { Execute } from '../session.ts'
import { formatDuration, parseDuration } from '../settings/duration.ts'
import { byOption, operatorOf, partOf } from '../settings/operator.ts'
import { storeCommand } from '../settings/settings.ts'
import { openStoreOf, type StoreOptions } from '../stores/open-store.ts'

interface PauseOptions extends StoreOptions {
  readonly for?: number | undefined
  readonly reason?: string | undefined
  readonly by?: string | undefined
}

export function pauseCommand(execute: Execute): Command {
  return storeCommand('pause')
    .description(
      'Stops all relays of the store from publishing to a destination, within about a second. Its records wait, without losing attempts.',
    )
    .argument('<destination>', 'the destination, as shown by `ackord status`')
    .option('--for <duration>', 'resume by itself after this time, such as 30m', parseDuration)
    .option('--reason <text>', 'the reason; shown by `ackord relays`')
    .addOption(byOption())
    .action(
      execute(async (session, options: PauseOptions, [destination = '']) => {
        const { output } = session
        const { for: duration, reason } = options
        if (reason === undefined) throw usageError('--reason is missing: it is required, so that others can see why nothing is published.')
        await using store = await openStoreOf(options, session)
        const admin = store.outbox({ logger: output.logger() })
        await partOf(admin, 'pause')(destination, { duration, reason, by: operatorOf(options) })
        output.object({ paused: destination, for_ms: duration ?? null })
        const until = duration === undefined ? 'until `ackord resume`' : `for ${formatDuration(duration)}`
        output.line(`Nothing is published to ${printable(destination)} ${until}.`)
        return exitCode.ok
      }),
    )
}

export function resumeCommand(execute: Execute): Command {
  return storeCommand('resume')
    .description('Ends a pause: relays publish to the destination again.')
    .argument('<destination>', 'the destination, as shown by `ackord relays`')
    .option('--reason <text>', 'the reason, for the audit')
    .addOption(byOption())
    .action(
      execute(async (session, options: PauseOptions, [destination = '']) => {
        const { output } = session
        await using store = await openStoreOf(options, session)
        const admin = store.outbox({ logger: output.logger() })
        const resumed = await partOf(admin, 'resume')(destination, { reason: options.reason, by: operatorOf(options) })
        output.object({ resumed })
        output.line(resumed ? `Relays publish to ${printable(destination)} again.` : `${printable(destination)} is not paused.`)
        return resumed ? exitCode.ok : exitCode.failed
      }),
    )
}
