import type { VNode } from 'preact'
import type { DestinationOverview, OutboxState, StoreOverview } from '../../src/api/types.ts'
import { ratesPerMinute, storedPerMinute } from '../state/rates.ts'
import { states } from '../state/record-query.ts'
import { atLeast, counted, wholeNumber } from '../text/numbers.ts'
import { visibleText } from '../text/visible-text.ts'
import { Chart } from './chart.tsx'
import { DestinationTable } from './destination-table.tsx'
import { Empty, ErrorMessage } from './messages.tsx'
import { RelayTable } from './relay-table.tsx'
import { RouteLink } from './route-link.tsx'
import { Age, Instant } from './times.tsx'

const shownTime = 30 * 60_000

export function StoreCard({ overview }: { readonly overview: StoreOverview }): VNode {
  const { store, at, error, destinations, relays } = overview
  const rates = ratesPerMinute(overview.rates, at)
  const stored = storedPerMinute(rates, overview.backlog)
  const id = `store-${store}`
  return (
    <section class="card" aria-labelledby={id}>
      <header class="card-heading">
        <h2 id={id}>{visibleText(store)}</h2>
        <span class="muted">
          updated <Instant at={at} store={store} />
        </span>
      </header>
      {error !== undefined && <ErrorMessage text={`The store cannot be read; these are its last known figures. ${error}`} />}
      <Figures overview={overview} stored={stored.at(-1) ?? undefined} published={rates.published.at(-1) ?? 0} />
      <div class="charts">
        <Chart
          title="Per minute"
          at={rates.at.map((start) => start + 30_000)}
          from={at - shownTime}
          to={at}
          empty="Nothing was published in the last 30 minutes."
          series={[
            { label: 'Stored (estimate)', values: stored, kind: 'line', colour: 'ready' },
            { label: 'Published', values: rates.published, kind: 'bars', colour: 'accent-chart' },
            { label: 'Failed', values: rates.failed, kind: 'line', colour: 'waiting' },
            { label: 'Parked', values: rates.parked, kind: 'line', colour: 'parked' },
          ]}
        />
        <Chart
          title="Backlog"
          at={overview.backlog.map((point) => point.at)}
          from={at - shownTime}
          to={at}
          empty="No records were waiting in the last 30 minutes."
          series={[{ label: 'Ready and waiting', values: overview.backlog.map(({ records }) => records), kind: 'area', colour: 'ready' }]}
        />
      </div>
      <h3>Destinations</h3>
      {destinations.length === 0 ? (
        <Empty title="No records">The outbox is empty. Destinations appear here with their first record.</Empty>
      ) : (
        <DestinationTable overview={overview} />
      )}
      {overview.omittedDestinations !== undefined && overview.omittedDestinations > 0 && (
        <p class="muted">{counted(overview.omittedDestinations, 'destination')} with fewer records are not shown.</p>
      )}
      <h3>Relays {relays !== undefined && <span class="count">{relays.length}</span>}</h3>
      {relays === undefined && <p class="muted pending">Loading…</p>}
      {relays?.length === 0 && <NoRelays />}
      {relays !== undefined && relays.length > 0 && <RelayTable relays={relays} />}
    </section>
  )
}

function NoRelays(): VNode {
  return <p class="message warn">No relay has reported in the last half minute. Records are not published until one runs.</p>
}

interface FiguresProps {
  readonly overview: StoreOverview
  /** Per minute. `undefined`: unknown. */
  readonly stored: number | undefined
  readonly published: number
}

function Figures({ overview, stored, published }: FiguresProps): VNode {
  const { store, destinations, oldestAge } = overview
  return (
    <dl class="figures">
      <div class="figure">
        <dt>Lag</dt>
        <dd>
          <Age age={oldestAge} />
        </dd>
      </div>
      {states.map((state) => {
        const { count, capped } = total(destinations, state)
        return (
          <div class={`figure ${count > 0 ? state : 'zero'}`} key={state}>
            <dt>{state}</dt>
            <dd>
              <RouteLink to={{ page: 'records', store, query: { state } }}>{atLeast(count, capped)}</RouteLink>
            </dd>
          </div>
        )
      })}
      <div class="figure" title="An estimate: what was published, and by how much the number of unpublished records grew">
        <dt>Stored/min</dt>
        <dd>{stored === undefined ? '–' : `≈ ${wholeNumber(stored)}`}</dd>
      </div>
      <div class="figure">
        <dt>Published/min</dt>
        <dd>{wholeNumber(published)}</dd>
      </div>
    </dl>
  )
}

export function total(
  destinations: readonly DestinationOverview[],
  state: OutboxState,
): { readonly count: number; readonly capped: boolean } {
  return {
    count: destinations.reduce((sum, each) => sum + each[state], 0),
    capped: destinations.some(({ capped }) => capped),
  }
}
