import type { VNode } from 'preact'
import type { OutboxState, RecordDetail, RecordSummary } from '../../src/api/types.ts'
import { useSearch } from '../state/search.ts'
import { visibleText } from '../text/visible-text.ts'
import { RouteLink } from './route-link.tsx'
import { StateBadge } from './state-badge.tsx'
import { Instant } from './times.tsx'

interface KeyRecordsProps {
  readonly store: string
  readonly record: RecordDetail
  /** The filter value. */
  readonly orderingKey: string
}

const notSearched = 'The outbox is large, and not all of it was searched. Look at all records of this key.'

/** The records before and after this one in its key: what it waits for, and what waits for it. */
export function KeyRecords({ store, record, orderingKey }: KeyRecordsProps): VNode {
  const { destination, behind, behindComplete } = record
  const oldest = (state: OutboxState) => useSearch(store, { state, destination, orderingKey, limit: 5 })
  const pending = [oldest('parked'), oldest('leased'), oldest('waiting'), oldest('ready')]
  const later = new Set([record.id, ...behind.map(({ id }) => id)])
  const ahead = pending
    .flatMap(({ data }) => data?.records ?? [])
    .filter(({ id, createdAt }) => !later.has(id) && createdAt <= record.createdAt)
    .toSorted((one, other) => one.createdAt - other.createdAt)
  const isSearched = pending.every(({ complete }) => complete)
  const isSearching = pending.some(({ loading }) => loading)
  return (
    <section class="card" aria-labelledby="key-title">
      <h2 id="key-title">
        Key <span class="id">{visibleText(record.orderingKey ?? '')}</span>
      </h2>
      {record.state !== 'published' && (
        <>
          <h3>Ahead of it</h3>
          {ahead.length > 0 && <RecordList store={store} records={ahead} />}
          {ahead.length === 0 && isSearched && <p class="muted">Nothing: no earlier record of this key is unpublished.</p>}
          {!isSearched && <p class="muted">{isSearching ? 'Searching…' : notSearched}</p>}
        </>
      )}
      <h3>Behind it</h3>
      {behind.length > 0 && <RecordList store={store} records={behind} />}
      {behind.length === 0 && <p class="muted">{behindComplete ? 'Nothing waits behind it.' : notSearched}</p>}
      <p>
        <RouteLink to={{ page: 'records', store, query: { destination, orderingKey } }}>All records of this key</RouteLink>
      </p>
    </section>
  )
}

function RecordList({ store, records }: { readonly store: string; readonly records: readonly RecordSummary[] }): VNode {
  return (
    <ol class="record-list">
      {records.map(({ id, state, type, createdAt }) => (
        <li key={id}>
          <RouteLink class="cut id" to={{ page: 'record', store, id }}>
            {visibleText(id)}
          </RouteLink>
          <StateBadge state={state} />
          <span class="cut">{visibleText(type ?? '')}</span>
          <span class="muted">
            <Instant at={createdAt} store={store} />
          </span>
        </li>
      ))}
    </ol>
  )
}
