import type { VNode } from 'preact'
import type { RelayReport } from '../../src/api/types.ts'
import { wholeNumber } from '../text/numbers.ts'
import { duration } from '../text/times.ts'
import { visibleText } from '../text/visible-text.ts'
import { StateBadge } from './state-badge.tsx'
import { Age } from './times.tsx'

const columns = ['Uptime', 'In flight', 'Partitions', 'Published', 'Failed', 'Parked', 'Reported']

export function RelayTable({ relays }: { readonly relays: readonly RelayReport[] }): VNode {
  return (
    <table class="stacked">
      <thead>
        <tr>
          <th scope="col">Host</th>
          <th scope="col">Serves</th>
          {columns.map((column) => (
            <th scope="col" class="number" key={column}>
              {column}
            </th>
          ))}
          <th scope="col">Down</th>
        </tr>
      </thead>
      <tbody>
        {relays.map((relay) => (
          <tr key={relay.id}>
            <th scope="row" title={visibleText(relay.id)}>
              {visibleText(relay.host)} <span class="muted">pid {relay.pid}</span>
            </th>
            <td data-label="Serves">{relay.destinations === undefined ? 'all' : relay.destinations.map(visibleText).join(', ')}</td>
            <td class="number" data-label="Uptime">
              <Age age={relay.uptime} />
            </td>
            <td class="number" data-label="In flight">
              {wholeNumber(relay.inFlight)}
            </td>
            <td
              class="number"
              data-label="Partitions"
              title={relay.partitions === undefined ? 'This relay does not publish in the order of keys' : undefined}
            >
              {relay.partitions === undefined ? '–' : wholeNumber(relay.partitions)}
              {relay.ownedPartitions !== undefined && <div class="muted ranges">{visibleText(relay.ownedPartitions)}</div>}
            </td>
            <td class="number" data-label="Published">
              {wholeNumber(relay.published)}
            </td>
            <td class="number" data-label="Failed">
              {wholeNumber(relay.failed)}
            </td>
            <td class="number" data-label="Parked">
              {wholeNumber(relay.parked)}
            </td>
            <td class="number" data-label="Reported">
              {duration(relay.age)} ago
            </td>
            <td data-label="Down">
              {relay.down.length === 0 && <span class="muted">none</span>}
              {relay.down.map(({ destination, downFor }) => (
                <StateBadge key={destination} state="bad" text={`${visibleText(destination)} for ${duration(downFor)}`} />
              ))}
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  )
}
