import type { OutboxPage, OutboxState } from '@ackord/outbox'
import type { Command } from 'commander'
import type { Output } from '../../output/output.ts'
import { type FilterOptions, filterOf, fullPage, recordObject, recordTable } from '../../output/records.ts'
import type { Execute } from '../../session.ts'
import { addFilter, addWatch, parseChoice, parseInteger, storeCommand } from '../../settings/settings.ts'
import { showOrWatch, stopsItself, type WatchedOptions } from '../../watch/show-or-watch.ts'

interface ListOptions extends WatchedOptions, FilterOptions {
  readonly state?: OutboxState | undefined
  readonly limit: number
  readonly after?: string | undefined
}

export function listCommand(execute: Execute): Command {
  return addWatch(addFilter(storeCommand('list')))
    .description('Lists records of the outbox, oldest first.')
    .option(
      '--state <state>',
      'ready, waiting, leased, parked or published',
      parseChoice('ready', 'waiting', 'leased', 'parked', 'published'),
    )
    .option('--limit <count>', 'maximum number of records', parseInteger(1, 10_000), 50)
    .option('--after <cursor>', 'continue after the previous page')
    .action(
      execute(
        (session, options: ListOptions) => {
          const { output } = session
          const { limit, after, state } = options
          return showOrWatch<OutboxPage>(session, options, {
            read: (outbox, _address, logger) =>
              fullPage(outbox, filterOf(options, state), { limit, after }, { logger, signal: session.signal }),
            object: ({ records, next }) => ({ records: records.map((record) => recordObject(output, record)), next: next ?? null }),
            lines: (page, before) => pageLines(output, page, before),
          })
        },
        { stopsItself },
      ),
    )
}

function pageLines(output: Output, page: OutboxPage, before: OutboxPage | undefined): readonly string[] {
  const { records, next } = page
  return [
    ...(before === undefined ? [] : changeLines(page, before)),
    ...(records.length === 0 ? ['No records found.'] : recordTable(output, records)),
    ...(next === undefined ? [] : ['', `More records: --after ${shellWord(next)}`]),
  ]
}

/** The difference between two refreshes, in a line above the records: a screen may be too small for all of them. */
function changeLines({ records }: OutboxPage, before: OutboxPage): readonly string[] {
  const had = new Map(before.records.map((record) => [record.id, record]))
  const known = records.filter(({ id }) => had.has(id))
  const changed = known.filter(({ id, state, attempts }) => had.get(id)?.state !== state || had.get(id)?.attempts !== attempts)
  const changes = [
    [records.length - known.length, 'new'],
    [changed.length, 'changed'],
    [before.records.length - known.length, 'gone'],
  ] as const
  const shown = changes.filter(([count]) => count > 0).map(([count, what]) => `${count} ${what}`)
  return [`Since the previous refresh: ${shown.length === 0 ? 'no change' : shown.join(', ')}.`, '']
}

/** A Redis cursor contains quotes and brackets, and must be safe to paste into a shell. */
function shellWord(text: string): string {
  return /^[\w.-]+$/.test(text) ? text : `'${text.replaceAll("'", String.raw`'\''`)}'`
}
