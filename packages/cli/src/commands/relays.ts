import { systemRuntime } from '@ackord/core'
import type { DestinationPause, OutboxRate, RelayReport } from '@ackord/outbox'
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
  readonly perMinute: PerMinute
}

/** What all relays of the store did in one minute. */
interface PerMinute {
  /** The start of the minute. */
  readonly from: number
  readonly destinations: readonly Pick<OutboxRate, 'destination' | 'published' | 'failed' | 'parked'>[]
}

const minute = 60_000
/** Milliseconds. A destination for which relays did something in this time is listed, also if that has ended. */
const ratesAge = 5 * minute

export function relaysCommand(execute: Execute): Command {
  return addWatch(storeCommand('relays'))
    .description(
      'Lists the relays that are alive, what each of them has in flight, what they publish per minute, and the destinations that are paused.',
    )
    .action(
      execute(
        (session, options: WatchedOptions) =>
          showOrWatch<Relays>(session, options, {
            read: async (outbox, address) => ({
              address,
              relays: await partOf(outbox, 'relays')(),
              pauses: await partOf(outbox, 'pauses')(),
              perMinute: perMinuteOf(await partOf(outbox, 'rates')({ maxAge: ratesAge }), systemRuntime.now()),
            }),
            object: relaysObject,
            lines: (found) => relayLines(session.output, found),
          }),
        { stopsItself },
      ),
    )
}

/**
 * The last whole minute that ended at least a minute ago, as on the dashboard: relays report about once a minute, and without their reports a later one would look like a drop. A report
 * that lies in two minutes counts for both, by its share of each.
 */
function perMinuteOf(rates: readonly OutboxRate[], now: number): PerMinute {
  const from = (Math.floor(now / minute) - 2) * minute
  const sums = new Map<string, { published: number; failed: number; parked: number }>()
  for (const { destination, at, duration, published, failed, parked } of rates) {
    const length = Math.max(1, duration)
    const share = Math.max(0, Math.min(at, from + minute) - Math.max(at - length, from)) / length
    const sum = sums.get(destination) ?? { published: 0, failed: 0, parked: 0 }
    sums.set(destination, {
      published: sum.published + published * share,
      failed: sum.failed + failed * share,
      parked: sum.parked + parked * share,
    })
  }
  const rounded = (value: number) => Math.round(value * 10) / 10
  const destinations = Array.from(sums, ([destination, { published, failed, parked }]) => ({
    destination,
    published: rounded(published),
    failed: rounded(failed),
    parked: rounded(parked),
  }))
  return { from, destinations: destinations.sort((one, other) => (one.destination < other.destination ? -1 : 1)) }
}

function relaysObject({ address, relays, pauses, perMinute }: Relays): object {
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
    per_minute: { from: instant(perMinute.from), destinations: perMinute.destinations },
  }
}

function relayLines(output: Output, { address, relays, pauses, perMinute }: Relays): readonly string[] {
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
    ...(perMinute.destinations.length === 0 ? [] : ['', ...output.table(rateColumns(output), perMinute.destinations)]),
    ...(pauses.length === 0 ? [] : ['', ...pauses.map((pause) => output.colours.yellow(pauseLine(pause)))]),
  ]
}

function rateColumns({ colours }: Output): readonly Column<PerMinute['destinations'][number]>[] {
  return [
    { heading: 'DESTINATION', cell: ({ destination }) => destination, cut: { rank: 1, min: 11 } },
    { heading: 'PUBLISHED/MIN', cell: ({ published }) => published },
    { heading: 'FAILED/MIN', cell: ({ failed }) => failed, colour: (text, { failed }) => (failed > 0 ? colours.yellow(text) : text) },
    { heading: 'PARKED/MIN', cell: ({ parked }) => parked, colour: (text, { parked }) => (parked > 0 ? colours.yellow(text) : text) },
  ]
}

function pauseLine({ destination, since, until, by, reason }: DestinationPause): string {
  const end = until === undefined ? '' : `, until ${instant(until)}`
  const who = by === undefined ? '' : ` by ${printable(by)}`
  const why = reason === undefined ? '' : `: ${printable(reason)}`
  return `${printable(destination)} was paused${who} at ${instant(since)}${end}${why}`
}
