import type { DestinationStats } from '@ackord/outbox'
import type { Command } from 'commander'
import { exitCode } from '../output/errors.ts'
import type { Execute } from '../session.ts'
import { formatDuration } from '../settings/duration.ts'
import { storeCommand } from '../settings/settings.ts'
import { openStoreOf, type StoreOptions } from '../stores/open-store.ts'

const states = ['ready', 'waiting', 'leased', 'parked', 'published'] as const

export function statusCommand(execute: Execute): Command {
  return storeCommand('status')
    .description('Shows the number of records by destination and state, and the age of the oldest pending one.')
    .action(
      execute(async (session, options: StoreOptions) => {
        const { output } = session
        await using store = await openStoreOf(options, session)
        const { destinations, oldestAge } = await store.outbox({ logger: output.logger() }).stats()
        const totals = sumOf(destinations)
        output.object({ store: store.address, destinations, totals, oldest_age_ms: oldestAge ?? null })
        if (destinations.length === 0) {
          output.line(`The outbox of ${store.address} is empty.`)
          return exitCode.ok
        }
        const rows = destinations.map((counts) => [counts.destination, ...states.map((state) => counts[state])])
        if (destinations.length > 1) rows.push(['all', ...states.map((state) => totals[state])])
        output.table(['DESTINATION', ...states.map((state) => state.toUpperCase())], rows)
        output.line()
        output.line(oldestAge === undefined ? 'No record is pending.' : `The oldest pending record is ${formatDuration(oldestAge)} old.`)
        if (totals.parked > 0) output.line(`Some records are parked: ackord list --state parked`)
        return exitCode.ok
      }),
    )
}

function sumOf(destinations: readonly DestinationStats[]): Record<(typeof states)[number], number> {
  const totals = { ready: 0, waiting: 0, leased: 0, parked: 0, published: 0 }
  for (const counts of destinations) for (const state of states) totals[state] += counts[state]
  return totals
}
