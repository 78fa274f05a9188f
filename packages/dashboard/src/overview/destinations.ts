import type { DestinationPause, DestinationStats, RelayReport } from '@ackord/outbox'
import type { DestinationOverview, StoreOverview } from '../api/types.ts'

/** The overview is sent every two seconds: an outbox with a destination per customer would be too large. */
const maxDestinations = 500

/** Every destination that has records, is paused, or is down for a relay, by name. */
export function listDestinations(
  stats: readonly DestinationStats[],
  pauses: readonly DestinationPause[],
  relays: readonly RelayReport[],
): Pick<StoreOverview, 'destinations' | 'omittedDestinations'> {
  const counted = new Map(stats.map((each) => [each.destination, each]))
  const paused = new Map(pauses.map((each) => [each.destination, each]))
  const down = new Map<string, number>()
  for (const { age, down: found } of relays)
    for (const { destination, downFor } of found) down.set(destination, Math.max(down.get(destination) ?? 0, downFor + age))
  const names = new Set([...counted.keys(), ...paused.keys(), ...down.keys()])
  const all = Array.from(names, (destination): DestinationOverview => {
    const { capped = false, ...counts } = counted.get(destination) ?? { destination, ...noRecords }
    return { ...counts, capped, paused: paused.get(destination), downFor: down.get(destination) }
  })
  const shown = all.length > maxDestinations ? all.sort((one, other) => weightOf(other) - weightOf(one)).slice(0, maxDestinations) : all
  return {
    destinations: shown.sort((one, other) => (one.destination < other.destination ? -1 : 1)),
    omittedDestinations: all.length - shown.length,
  }
}

const noRecords = { ready: 0, waiting: 0, leased: 0, parked: 0, published: 0, oldestAge: undefined }

/** Those that need attention are shown in any case. */
function weightOf({ ready, waiting, parked, paused, downFor }: DestinationOverview): number {
  return paused !== undefined || downFor !== undefined ? Infinity : ready + waiting + parked
}
