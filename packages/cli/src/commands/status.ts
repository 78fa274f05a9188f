import type { DestinationStats, OutboxStats } from '@ackord/outbox'
import type { Command } from 'commander'
import type { Output } from '../output/output.ts'
import type { Column } from '../output/table.ts'
import { counted } from '../output/text.ts'
import type { Execute } from '../session.ts'
import { formatDuration } from '../settings/duration.ts'
import { addWatch, storeCommand } from '../settings/settings.ts'
import { showOrWatch, stopsItself, type WatchedOptions } from '../watch/show-or-watch.ts'

const states = ['ready', 'waiting', 'leased', 'parked', 'published'] as const

type Counts = Pick<DestinationStats, (typeof states)[number]>

interface Status extends OutboxStats {
  readonly address: string
}

export function statusCommand(execute: Execute): Command {
  return addWatch(storeCommand('status'))
    .description('Shows the number of records by destination and state, and the age of the oldest pending ones.')
    .action(
      execute(
        (session, options: WatchedOptions) =>
          showOrWatch<Status>(session, options, {
            read: async (outbox, address) => ({ address, ...(await outbox.stats()) }),
            object: statusObject,
            lines: (status, before) => statusLines(session.output, status, before),
          }),
        { stopsItself },
      ),
    )
}

function statusObject({ address, destinations, oldestAge }: Status): object {
  return {
    store: address,
    destinations: destinations.map(({ oldestAge: age, ...counts }) => ({ ...counts, oldest_age_ms: age ?? null })),
    totals: sumOf(destinations),
    oldest_age_ms: oldestAge ?? null,
  }
}

interface StatusRow extends DestinationStats {
  /** The numbers of the previous refresh. */
  readonly before: Counts | undefined
}

function statusLines(output: Output, status: Status, before: Status | undefined): readonly string[] {
  const { address, destinations, oldestAge } = status
  const rows = rowsOf(destinations, before?.destinations)
  if (rows.length === 0) return [`The outbox of ${address} is empty.`]
  const totals = sumOf(destinations)
  if (rows.length > 1)
    rows.push({ destination: 'all', ...totals, oldestAge, before: before === undefined ? undefined : sumOf(before.destinations) })
  const { yellow } = output.colours
  const columns: readonly Column<StatusRow>[] = [
    { heading: 'DESTINATION', cell: ({ destination }) => destination, cut: { rank: 2, min: 11 } },
    ...states.map((state) => ({
      heading: state.toUpperCase(),
      cell: (counts: Counts) => counts[state],
      colour: (text: string, counts: Counts) => (state === 'parked' && counts.parked > 0 ? yellow(text) : text),
    })),
    { heading: 'LAG', cell: ({ oldestAge: age }) => (age === undefined ? '-' : formatDuration(age)) },
    ...(before === undefined ? [] : [{ heading: 'CHANGE', cell: changeOf, cut: { rank: 1, min: 12 }, omit: 1 }]),
  ]
  return [
    ...output.table(columns, rows),
    '',
    oldestAge === undefined ? 'No record is pending.' : `The oldest pending record is ${formatDuration(oldestAge)} old.`,
    ...(totals.parked > 0 ? [yellow(`${counted(totals.parked, 'record is', 'records are')} parked: ackord list --state parked`)] : []),
  ]
}

/** A destination that had records in the previous refresh is shown once more, without any: otherwise its end would go unnoticed. */
function rowsOf(destinations: readonly DestinationStats[], before: readonly DestinationStats[] | undefined): StatusRow[] {
  const had = new Map(before?.map((one) => [one.destination, one]))
  const rows = destinations.map((one): StatusRow => {
    const counts = had.get(one.destination) ?? none
    had.delete(one.destination)
    return { ...one, before: before === undefined ? undefined : counts }
  })
  const ended = [...had.values()].filter((one) => states.some((state) => one[state] > 0))
  return [...rows, ...ended.map((one) => ({ destination: one.destination, ...none, oldestAge: undefined, before: one }))]
}

/** `ready +5, leased -2` */
function changeOf({ before, ...counts }: StatusRow): string {
  if (before === undefined) return ''
  const changes = states.map((state) => [state, counts[state] - before[state]] as const).filter(([, change]) => change !== 0)
  return changes.map(([state, change]) => `${state} ${change > 0 ? '+' : ''}${change}`).join(', ')
}

const none: Counts = { ready: 0, waiting: 0, leased: 0, parked: 0, published: 0 }

function sumOf(destinations: readonly DestinationStats[]): Counts {
  const totals = { ...none }
  for (const counts of destinations) for (const state of states) totals[state] += counts[state]
  return totals
}
