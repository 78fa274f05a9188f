import type { VNode } from 'preact'
import type { DestinationOverview, StoreOverview } from '../../src/api/types.ts'
import { ratesPerMinute } from '../state/rates.ts'
import { states } from '../state/record-query.ts'
import { may } from '../state/session.ts'
import { atLeast, capitalised, wholeNumber } from '../text/numbers.ts'
import { duration } from '../text/times.ts'
import { visibleText } from '../text/visible-text.ts'
import { PauseButton } from './pause-button.tsx'
import { RouteLink } from './route-link.tsx'
import { Sparkline } from './sparkline.tsx'
import { StateBadge } from './state-badge.tsx'
import { Age, Instant } from './times.tsx'

export function DestinationTable({ overview }: { readonly overview: StoreOverview }): VNode {
  return (
    <table class="stacked destinations">
      <thead>
        <tr>
          <th scope="col">Destination</th>
          <th scope="col">State</th>
          {states.map((state) => (
            <th scope="col" class="number" key={state}>
              {state}
            </th>
          ))}
          <th scope="col" class="number">
            Oldest
          </th>
          <th scope="col" class="number">
            Published/min
          </th>
          <th scope="col" class="number">
            Failed/min
          </th>
          {may('pause') && (
            <th scope="col">
              <span class="hidden">Actions</span>
            </th>
          )}
        </tr>
      </thead>
      <tbody>
        {overview.destinations.map((destination) => (
          <DestinationRow key={destination.destination} overview={overview} destination={destination} />
        ))}
      </tbody>
    </table>
  )
}

function DestinationRow({ overview, destination }: { readonly overview: StoreOverview; readonly destination: DestinationOverview }): VNode {
  const { store, rates, at } = overview
  const name = destination.destination
  const { published, failed } = ratesPerMinute(
    rates.filter((rate) => rate.destination === name),
    at,
  )
  const failedNow = Math.round(failed.at(-1) ?? 0)
  return (
    <tr>
      <th scope="row">
        <RouteLink to={{ page: 'records', store, query: { destination: name } }}>{visibleText(name)}</RouteLink>
      </th>
      <td data-label="State">
        <DestinationState store={store} destination={destination} />
      </td>
      {states.map((state) => (
        <td class="number" data-label={capitalised(state)} key={state}>
          {destination[state] === 0 ? (
            <span class="muted">0</span>
          ) : (
            <RouteLink
              class={state === 'parked' ? 'alarming' : undefined}
              to={{ page: 'records', store, query: { state, destination: name } }}
            >
              {atLeast(destination[state], destination.capped)}
            </RouteLink>
          )}
        </td>
      ))}
      <td class="number" data-label="Oldest">
        <Age age={destination.oldestAge} />
      </td>
      <td class="number" data-label="Published/min">
        <span class="trend">
          <Sparkline values={published} />
          {wholeNumber(published.at(-1) ?? 0)}
        </span>
      </td>
      <td class="number" data-label="Failed/min">
        <span class={failedNow > 0 ? 'alarming' : 'muted'}>{wholeNumber(failedNow)}</span>
      </td>
      {may('pause') && (
        <td class="actions">
          <PauseButton store={store} destination={destination} />
        </td>
      )}
    </tr>
  )
}

/** Whether relays publish to a destination, and if not, why. */
function DestinationState({ store, destination }: { readonly store: string; readonly destination: DestinationOverview }): VNode {
  const { paused, downFor } = destination
  if (paused === undefined && downFor === undefined) return <StateBadge state="good" text="up" />
  return (
    <div class="reasons">
      {downFor !== undefined && <StateBadge state="bad" text={`down for ${duration(downFor)}`} />}
      {paused !== undefined && (
        <>
          <StateBadge state="warn" text="paused" />
          <span class="muted">
            <Instant at={paused.since} store={store} />
            {paused.by !== undefined && ` by ${visibleText(paused.by)}`}
            {paused.until !== undefined && (
              <>
                , ends <Instant at={paused.until} store={store} />
              </>
            )}
            {paused.reason !== undefined && `: ${visibleText(paused.reason)}`}
          </span>
        </>
      )}
    </div>
  )
}
