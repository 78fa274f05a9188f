import type { Attributes } from '@ackord/core'
import type { OutboxAdmin, OutboxEdit } from '@ackord/outbox'
import type { Command } from 'commander'
import { usageError } from '../command-error.ts'
import type { Execute } from '../execute.ts'
import { exitCode } from '../exit-code.ts'
import type { Output } from '../output.ts'
import { checkWhich, parkedPages, type WhichOptions } from '../parked-records.ts'
import { filterOf } from '../record-filter.ts'
import { recordObject, recordTable } from '../record-view.ts'
import { addFilter, parsePairs, storeCommand } from '../settings.ts'
import { openStoreOf, type StoreOptions } from '../store-options.ts'

interface RearmOptions extends StoreOptions, WhichOptions {
  readonly setDestination?: string | undefined
  readonly setAttribute?: ReadonlyMap<string, string> | undefined
  readonly dryRun?: boolean | undefined
}

export function rearmCommand(execute: Execute): Command {
  return addFilter(storeCommand('rearm'))
    .description('Makes parked records ready to be published again, with no attempts counted. Others are left alone.')
    .argument('[ids...]', 'the records, as `ackord list --state parked` gives them')
    .option('--all', 'all that are parked')
    .option('--set-destination <name>', 'send them here instead')
    .option('--set-attribute <name=value>', 'with this attribute, several times for several', parsePairs)
    .option('--dry-run', 'show which they are, and change nothing')
    .action(
      execute(async (session, options: RearmOptions, ids) => {
        const { output } = session
        checkWhich(ids, options)
        const edit = editOf(options)
        await using store = await openStoreOf(options, session)
        const admin = store.outbox({ logger: output.logger() })
        if (options.dryRun === true) return await showParked(admin, ids, options, output)
        const rearmed = await admin.rearm(ids.length > 0 ? { ids } : { filter: filterOf(options) }, edit)
        output.object({ rearmed })
        output.line(`${rearmed} ${rearmed === 1 ? 'record is' : 'records are'} ready to be published again.`)
        return ids.length > 0 && rearmed === 0 ? nothingDone(output) : exitCode.ok
      }),
    )
}

/** For `--dry-run` of `rearm` and `discard`. */
export async function showParked(admin: OutboxAdmin, ids: readonly string[], options: WhichOptions, output: Output): Promise<0 | 1> {
  let count = 0
  for await (const records of parkedPages(admin, ids, options)) {
    count += records.length
    for (const record of records) output.object(recordObject(output, record))
    if (!output.json) recordTable(output, records)
  }
  output.object({ dry_run: true, records: count })
  output.line(`${count} parked ${count === 1 ? 'record' : 'records'}; nothing was changed.`)
  return ids.length > 0 && count === 0 ? nothingDone(output) : exitCode.ok
}

export function nothingDone(output: Output): 1 {
  output.line('None of these ids is of a parked record.')
  return exitCode.failed
}

function editOf({ setDestination, setAttribute }: RearmOptions): OutboxEdit | undefined {
  if (setDestination === undefined && setAttribute === undefined) return undefined
  const attributes: Attributes | undefined = setAttribute === undefined ? undefined : Object.fromEntries(setAttribute)
  const odd = Object.keys(attributes ?? {}).find((name) => name === 'id' || !/^[a-z0-9]+$/.test(name))
  if (odd !== undefined)
    throw usageError(`--set-attribute cannot set '${odd}'.`, 'Names are lower-case letters and digits; the id must stay.')
  return { destination: setDestination, attributes }
}
