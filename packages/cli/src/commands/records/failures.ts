import type { OutboxGroup, OutboxGroups } from '@ackord/outbox'
import type { Command } from 'commander'
import type { Output } from '../../output/output.ts'
import { type FilterOptions, filterOf } from '../../output/records.ts'
import type { Column } from '../../output/table.ts'
import { instant, onOneLine, toSeconds } from '../../output/text.ts'
import type { Execute } from '../../session.ts'
import { partOf } from '../../settings/operator.ts'
import { addFilter, addWatch, parseChoice, storeCommand } from '../../settings/settings.ts'
import { showOrWatch, stopsItself, type WatchedOptions } from '../../watch/show-or-watch.ts'

interface FailuresOptions extends WatchedOptions, FilterOptions {
  readonly groupBy: 'failure' | 'type' | 'destination'
  readonly state?: 'parked' | 'waiting' | undefined
}

export function failuresCommand(execute: Execute): Command {
  return addWatch(addFilter(storeCommand('failures')))
    .description('Counts the parked and waiting records by what they have in common, such as the cause of their failure.')
    .option('--group-by <what>', 'failure, type or destination', parseChoice('failure', 'type', 'destination'), 'failure')
    .option('--state <state>', 'parked or waiting (default: both)', parseChoice('parked', 'waiting'))
    .action(
      execute(
        (session, options: FailuresOptions) =>
          showOrWatch<OutboxGroups>(session, options, {
            read: (outbox) => partOf(outbox, 'groups')(options.groupBy, filterOf(options, options.state)),
            object: ({ groups, complete }) => ({
              groups: groups.map(({ name, count, first, last }) => ({
                name: session.output.masked(name),
                count,
                first: instant(first),
                last: instant(last),
              })),
              complete,
            }),
            lines: (found) => groupLines(session.output, found, options.groupBy),
          }),
        { stopsItself },
      ),
    )
}

function groupLines(output: Output, { groups, complete }: OutboxGroups, by: FailuresOptions['groupBy']): readonly string[] {
  if (groups.length === 0) return ['No parked or waiting record has failed.']
  const time = (at: number) => (output.terminal ? toSeconds(at) : (instant(at) ?? ''))
  const columns: readonly Column<OutboxGroup>[] = [
    { heading: 'RECORDS', cell: ({ count }) => count },
    { heading: 'OLDEST', cell: ({ first }) => time(first), omit: 2 },
    { heading: 'LATEST', cell: ({ last }) => time(last), omit: 1 },
    {
      heading: by === 'failure' ? 'CAUSE' : by.toUpperCase(),
      cell: ({ name }) => onOneLine(output.masked(name)),
      cut: { rank: 1, min: 20 },
    },
  ]
  return [
    ...output.table(columns, groups),
    ...(complete ? [] : ['', 'There are more records than were counted; the numbers are lower limits.']),
    ...(by === 'failure' ? ['', "Records of a cause: ackord list --cause '…'; `rearm` and `discard` accept it, too."] : []),
  ]
}
