import type { Attributes } from '@ackord/core'
import type { OutboxAdmin, OutboxEdit } from '@ackord/outbox'
import type { Command } from 'commander'
import { exitCode, usageError } from '../../output/errors.ts'
import type { Output } from '../../output/output.ts'
import { checkWhich, chosenPages, filterOf, isNamed, recordObject, recordTable, type WhichOptions } from '../../output/records.ts'
import { counted } from '../../output/text.ts'
import type { Execute } from '../../session.ts'
import { parseDuration } from '../../settings/duration.ts'
import { byOption, operatorOf } from '../../settings/operator.ts'
import { addFilter, parsePairs, storeCommand } from '../../settings/settings.ts'
import { openStoreOf, type StoreOptions } from '../../stores/open-store.ts'

interface RearmOptions extends StoreOptions, WhichOptions {
  readonly setDestination?: string | undefined
  readonly setAttribute?: ReadonlyMap<string, string> | undefined
  readonly published?: boolean | undefined
  readonly delay?: number | undefined
  readonly keepAttempts?: boolean | undefined
  readonly reason?: string | undefined
  readonly by?: string | undefined
  readonly dryRun?: boolean | undefined
}

export function rearmCommand(execute: Execute): Command {
  return addFilter(storeCommand('rearm'))
    .description(
      'Makes parked records ready to be published again, with attempts reset to 0; with --published, records that were published and kept.',
    )
    .argument('[ids...]', 'ids of records, as listed by `ackord list --state parked`')
    .option('--all', 'all parked records, or all published ones')
    .option('--published', 'published records instead of parked ones: they are published a second time, with the same id')
    .option('--delay <duration>', 'publish them after this delay, such as 10m', parseDuration)
    .option('--keep-attempts', 'earlier attempts still count')
    .option('--set-destination <name>', 'change the destination')
    .option('--set-attribute <name=value>', 'set an attribute; repeatable', parsePairs)
    .option('--reason <text>', 'the reason, for the audit')
    .addOption(byOption())
    .option('--dry-run', 'list the records without changing them')
    .action(
      execute(async (session, options: RearmOptions, ids) => {
        const { output } = session
        checkWhich(ids, options)
        const edit = editOf(options)
        await using store = await openStoreOf(options, session)
        const state: 'published' | 'parked' = options.published === true ? 'published' : 'parked'
        // In log mode, published records are only found by a store that keeps them.
        const admin = store.outbox({ logger: output.logger(), retain: state === 'published' && store.kind !== 'redis' })
        if (options.dryRun === true) return await showChosen(admin, ids, options, output, state)
        const { delay, keepAttempts } = options
        const how = { state, delay, keepAttempts, reason: options.reason, by: operatorOf(options) }
        const rearmed = await admin.rearm(ids.length > 0 ? { ids } : { filter: filterOf(options) }, edit, how)
        output.object({ rearmed })
        output.line(`${counted(rearmed, 'record is', 'records are')} ready to be published again.`)
        return isNamed(ids, options) && rearmed === 0 ? nothingDone(output, ids, state) : exitCode.ok
      }),
    )
}

/** For `--dry-run` of `rearm`, `discard` and `cancel`. */
export async function showChosen(
  admin: OutboxAdmin,
  ids: readonly string[],
  options: WhichOptions,
  output: Output,
  state: 'parked' | 'published' | 'waiting',
): Promise<0 | 1> {
  let count = 0
  for await (const records of chosenPages(admin, ids, options, state)) {
    count += records.length
    for (const record of records) output.object(recordObject(output, record))
    if (!output.json) for (const line of recordTable(output, records)) output.line(line)
  }
  output.object({ dry_run: true, records: count })
  output.line(`${counted(count, `${state} record`, `${state} records`)}; nothing was changed.`)
  return isNamed(ids, options) && count === 0 ? nothingDone(output, ids, state) : exitCode.ok
}

export function nothingDone(output: Output, ids: readonly string[], state: 'parked' | 'published' | 'waiting'): 1 {
  output.line(ids.length > 0 ? `None of these ids belongs to a ${state} record.` : `No ${state} record matches.`)
  return exitCode.failed
}

function editOf({ setDestination, setAttribute, published = false }: RearmOptions): OutboxEdit | undefined {
  if (setDestination === undefined && setAttribute === undefined && !published) return undefined
  const attributes: Attributes | undefined = setAttribute === undefined ? undefined : Object.fromEntries(setAttribute)
  const invalid = Object.keys(attributes ?? {}).find((name) => name === 'id' || !/^[a-z0-9]+$/.test(name))
  if (invalid !== undefined)
    throw usageError(`--set-attribute cannot set '${invalid}'.`, 'Names are lower-case letters and digits; the id cannot be changed.')
  // What is published a second time says so, as in a replay.
  return { destination: setDestination, attributes: published ? { ...attributes, replayed: true } : attributes }
}
