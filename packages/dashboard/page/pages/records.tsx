import { useSignal } from '@preact/signals'
import type { VNode } from 'preact'
import { useEffect, useRef } from 'preact/hooks'
import type { OutboxState, RecordQuery } from '../../src/api/types.ts'
import { MatchActions, SelectionActions } from '../parts/bulk-actions.tsx'
import { FilterChips } from '../parts/filter-chips.tsx'
import { FilterForm } from '../parts/filter-form.tsx'
import { Empty, WhenLoaded } from '../parts/messages.tsx'
import { PageHeading } from '../parts/page-heading.tsx'
import { RecordGroups } from '../parts/record-groups.tsx'
import { RecordTable } from '../parts/record-table.tsx'
import { RouteLink } from '../parts/route-link.tsx'
import { total } from '../parts/store-card.tsx'
import { StoreChoice } from '../parts/store-choice.tsx'
import { Instant } from '../parts/times.tsx'
import { storeOverview } from '../state/live-overview.ts'
import { revision } from '../state/loaded.ts'
import { goTo } from '../state/navigation.ts'
import { filterOf, formatRecordQuery, isNarrowed, states } from '../state/record-query.ts'
import { type Search, useSearch } from '../state/search.ts'
import { may } from '../state/session.ts'
import { atLeast } from '../text/numbers.ts'

export function Records({ store, query }: { readonly store: string; readonly query: RecordQuery }): VNode {
  const page = useSearch(store, query)
  const selected = useSignal<ReadonlyMap<string, OutboxState>>(new Map())
  // Where each page came from, so that one can go back: cursors only lead forward.
  const previous = useRef(new Map<string, string | undefined>())
  const filter = formatRecordQuery({ ...filterOf(query), id: query.id })

  useEffect(() => {
    selected.value = new Map()
  }, [filter, revision.value])

  function nextPage(after: string) {
    previous.current.set(after, query.after)
    goTo({ page: 'records', store, query: { ...query, after } })
  }

  return (
    <>
      <PageHeading title="Records">
        <StoreChoice store={store} onChoose={(other) => goTo({ page: 'records', store: other, query: {} })} />
        <button type="button" onClick={page.reload}>
          Refresh
        </button>
      </PageHeading>
      <StateTabs store={store} query={query} />
      <FilterForm store={store} query={query} />
      <FilterChips store={store} query={query} />
      {(query.state === undefined || query.state === 'parked' || query.state === 'waiting') && <RecordGroups store={store} query={query} />}
      <WhenLoaded loaded={page}>
        {({ records, next }) =>
          records.length === 0 && query.after === undefined && page.complete ? (
            <Empty title={isNarrowed(query) ? 'No record matches' : `No ${query.state ?? ''} records`}>
              {isNarrowed(query) && 'Remove a filter to see more. Published records are deleted unless the store keeps them.'}
            </Empty>
          ) : (
            <>
              <div class="card">
                <div class="row toolbar">
                  <span class="muted">Oldest first</span>
                  <span class="row">
                    <MatchActions store={store} query={query} />
                  </span>
                </div>
                <RecordTable
                  store={store}
                  records={records}
                  selected={may('rearm') || may('discard') || may('pause') ? selected : undefined}
                />
                {!page.complete && <SearchProgress store={store} search={page} />}
                <nav class="row paging" aria-label="Pages of records">
                  {query.after !== undefined && (
                    <RouteLink class="button" to={{ page: 'records', store, query: { ...query, after: undefined } }}>
                      First page
                    </RouteLink>
                  )}
                  {query.after !== undefined && previous.current.has(query.after) && (
                    <RouteLink
                      class="button"
                      to={{ page: 'records', store, query: { ...query, after: previous.current.get(query.after) } }}
                    >
                      Previous
                    </RouteLink>
                  )}
                  {next !== undefined && page.complete && (
                    <button type="button" onClick={() => nextPage(next)}>
                      Next
                    </button>
                  )}
                </nav>
              </div>
              <SelectionActions store={store} selected={selected} />
            </>
          )
        }
      </WhenLoaded>
    </>
  )
}

/** How far a search is that has not filled the page. */
function SearchProgress({ store, search }: { readonly store: string; readonly search: Search }): VNode {
  const { data, loading, searchOn } = search
  return (
    <div class="row search-progress" role="status">
      <span class="muted">
        {loading ? 'Searching…' : 'There are more records to search.'}
        {data?.searchedUntil !== undefined && (
          <>
            {' Searched: those stored until '}
            <Instant at={data.searchedUntil} store={store} />.
          </>
        )}
      </span>
      {!loading && (
        <button type="button" onClick={searchOn}>
          Search on
        </button>
      )}
    </div>
  )
}

function StateTabs({ store, query }: { readonly store: string; readonly query: RecordQuery }): VNode {
  const destinations = storeOverview(store)?.destinations ?? []
  const shown = query.destination === undefined ? destinations : destinations.filter(({ destination }) => destination === query.destination)
  return (
    <nav class="tabs" aria-label="States">
      <RouteLink
        to={{ page: 'records', store, query: { ...query, state: undefined, after: undefined } }}
        current={query.state === undefined ? 'true' : undefined}
      >
        all
      </RouteLink>
      {states.map((state) => {
        const { count, capped } = total(shown, state)
        return (
          <RouteLink
            key={state}
            to={{ page: 'records', store, query: { ...query, state, after: undefined } }}
            current={query.state === state ? 'true' : undefined}
          >
            {state} <span class={`count ${count > 0 ? state : ''}`}>{atLeast(count, capped)}</span>
          </RouteLink>
        )
      })}
    </nav>
  )
}
