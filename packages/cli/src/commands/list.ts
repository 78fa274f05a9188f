import type { OutboxState } from '@ackord/outbox'
import type { Command } from 'commander'
import { exitCode } from '../output/errors.ts'
import { type FilterOptions, filterOf, recordObject, recordTable } from '../output/records.ts'
import type { Execute } from '../session.ts'
import { addFilter, parseChoice, parseInteger, storeCommand } from '../settings/settings.ts'
import { openStoreOf, type StoreOptions } from '../stores/open-store.ts'

interface ListOptions extends StoreOptions, FilterOptions {
  readonly state?: OutboxState | undefined
  readonly limit: number
  readonly after?: string | undefined
}

export function listCommand(execute: Execute): Command {
  return addFilter(storeCommand('list'))
    .description('Lists records of the outbox, oldest first.')
    .option(
      '--state <state>',
      'ready, waiting, leased, parked or published',
      parseChoice('ready', 'waiting', 'leased', 'parked', 'published'),
    )
    .option('--limit <count>', 'maximum number of records', parseInteger(1, 10_000), 50)
    .option('--after <cursor>', 'continue after the previous page')
    .action(
      execute(async (session, options: ListOptions) => {
        const { output } = session
        await using store = await openStoreOf(options, session)
        const { limit, after, state } = options
        const page = await store.outbox({ logger: output.logger() }).list(filterOf(options, state), { limit, after })
        output.object({ records: page.records.map((record) => recordObject(output, record)), next: page.next ?? null })
        if (page.records.length === 0) output.line('No records found.')
        else recordTable(output, page.records)
        if (page.next !== undefined) output.line(`\nMore records: --after ${shellWord(page.next)}`)
        return exitCode.ok
      }),
    )
}

/** A Redis cursor contains quotes and brackets, and must be safe to paste into a shell. */
function shellWord(text: string): string {
  return /^[\w.-]+$/.test(text) ? text : `'${text.replaceAll("'", String.raw`'\''`)}'`
}
