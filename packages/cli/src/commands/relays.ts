import type { DestinationPause, RelayReport } from '@ackord/outbox'
import type { Command } from 'commander'
import type { Output } from '../output/output.ts'
import type { Column } from '../output/table.ts'
import { instant, printable } from '../output/text.ts'
import type { Execute } from '../session.ts'
import { formatDuration } from '../settings/duration.ts'
import { partOf } from '../settings/operator.ts'
import { addWatch, storeCommand } from '../settings/settings.ts'
import { showOrWatch, stopsItself, type WatchedOptions } from '../watch/show-or-watch.ts'

interface Relays {
  readonly address: string
  readonly relays: readonly RelayReport[]
  readonly pauses: readonly DestinationPause[]
}

export function relaysCommand(execute: Execute): Command {
  return addWatch(storeCommand('relays'))
    .description('Lists the relays that are alive, what each of them has in flight, and the destinations that are paused.')
    .action(
      execute(
        (session, options: WatchedOptions) =>
          showOrWatch<Relays>(session, options, {
            read: async (outbox, address) => ({
              address,
              relays: await partOf(outbox, 'relays')(),
              pauses: await partOf(outbox, 'pauses')(),
            }),
            object: relaysObject,
            lines: (found) => relayLines(session.output, found),
          }),
        { stopsItself },
      ),
    )
}

function relaysObject({ address, relays, pauses }: Relays): object {
  return {
    store: address,
    relays: relays.map(({ uptime, age, inFlight, down, ownedPartitions, ...rest }) => ({
      ...rest,
      uptime_ms: uptime,
      age_ms: age,
      in_flight: inFlight,
      owned_partitions: ownedPartitions,
      down: down.map(({ destination, downFor }) => ({ destination, down_for_ms: downFor })),
    })),
    pauses: pauses.map(({ since, until, ...rest }) => ({ ...rest, since: instant(since), until: instant(until) ?? null })),
  }
}

function relayLines(output: Output, { address, relays, pauses }: Relays): readonly string[] {
  const columns: readonly Column<RelayReport>[] = [
    { heading: 'HOST', cell: ({ host }) => host, cut: { rank: 3, min: 8 } },
    { heading: 'PID', cell: ({ pid }) => pid },
    { heading: 'UPTIME', cell: ({ uptime }) => formatDuration(uptime) },
    { heading: 'IN FLIGHT', cell: ({ inFlight }) => inFlight },
    { heading: 'PARTITIONS', cell: ({ partitions }) => partitions ?? '', omit: 2 },
    { heading: 'OWNS', cell: ({ ownedPartitions = '' }) => ownedPartitions, cut: { rank: 1, min: 8 }, omit: 1 },
    { heading: 'PUBLISHED', cell: ({ published }) => published },
    { heading: 'FAILED', cell: ({ failed }) => failed },
    { heading: 'PARKED', cell: ({ parked }) => parked },
    {
      heading: 'DOWN',
      cell: ({ down }) => down.map(({ destination, downFor }) => `${destination} (${formatDuration(downFor)})`).join(', '),
      cut: { rank: 2, min: 10 },
      omit: 3,
      colour: (text) => output.colours.yellow(text),
    },
  ]
  return [
    ...(relays.length === 0 ? [`No relay of ${address} has reported in the last 30 seconds.`] : output.table(columns, relays)),
    ...(pauses.length === 0 ? [] : ['', ...pauses.map((pause) => output.colours.yellow(pauseLine(pause)))]),
  ]
}

function pauseLine({ destination, since, until, by, reason }: DestinationPause): string {
  const end = until === undefined ? '' : `, until ${instant(until)}`
  const who = by === undefined ? '' : ` by ${printable(by)}`
  const why = reason === undefined ? '' : `: ${printable(reason)}`
  return `${printable(destination)} was paused${who} at ${instant(since)}${end}${why}`
}
