import { useSignal } from '@preact/signals'
import type { VNode } from 'preact'
import type { RecordGroups as Groups, RecordQuery } from '../../src/api/types.ts'
import { storePath } from '../state/api.ts'
import { useLoaded } from '../state/loaded.ts'
import { filterOf, formatRecordQuery } from '../state/record-query.ts'
import { capitalised, wholeNumber } from '../text/numbers.ts'
import { visibleText } from '../text/visible-text.ts'
import { Switch } from './choice.tsx'
import { ErrorMessage } from './messages.tsx'
import { RouteLink } from './route-link.tsx'
import { TimeSpan } from './times.tsx'

const fieldOf = { failure: 'cause', type: 'type', destination: 'destination' } as const

const shownAtFirst = 5

/** Parked and waiting records by what they have in common; a click filters by it. */
export function RecordGroups({ store, query }: { readonly store: string; readonly query: RecordQuery }): VNode | null {
  const by = useSignal<keyof typeof fieldOf>('failure')
  const all = useSignal(false)
  const field = fieldOf[by.value]
  const filter = formatRecordQuery({ ...filterOf(query), [field]: undefined }).replace('?', '&')
  const { data, error } = useLoaded<Groups>(storePath(store, `groups?by=${by.value}${filter}`))
  const groups = data?.groups ?? []
  const shown = all.value ? groups : groups.slice(0, shownAtFirst)
  const max = Math.max(1, ...groups.map(({ count }) => count))
  return (
    <section class="card groups" aria-labelledby="groups-title">
      <header class="row groups-heading">
        <h2 id="groups-title">{capitalised(query.state ?? 'parked and waiting')} records by</h2>
        <Switch
          label="Group by"
          value={by.value}
          options={[
            ['failure', 'Failure'],
            ['type', 'Type'],
            ['destination', 'Destination'],
          ]}
          onChoose={(value) => {
            by.value = value as keyof typeof fieldOf
          }}
        />
      </header>
      {error !== undefined && <ErrorMessage text={error} />}
      {data !== undefined && groups.length === 0 && <p class="muted">{by.value === 'failure' ? 'No failures.' : 'No such records.'}</p>}
      <ol>
        {shown.map(({ name, reference, count, first, last }) => (
          <li key={reference}>
            <span class="number count-of">{wholeNumber(count)} ×</span>
            <RouteLink
              to={{ page: 'records', store, query: { ...query, [field]: reference, after: undefined } }}
              current={query[field] === reference ? 'true' : undefined}
            >
              {visibleText(name)}
            </RouteLink>
            <TimeSpan first={first} last={last} store={store} />
            <svg class="bar" viewBox="0 0 100 1" preserveAspectRatio="none" aria-hidden="true">
              <rect width={(100 * count) / max} height="1" />
            </svg>
          </li>
        ))}
      </ol>
      {groups.length > shownAtFirst && (
        <button
          type="button"
          class="quiet"
          aria-expanded={all.value}
          onClick={() => {
            all.value = !all.value
          }}
        >
          {all.value ? 'Show fewer' : `Show all ${groups.length}`}
        </button>
      )}
      {data?.complete === false && <p class="muted">There are too many records to read them all: these are the numbers of the oldest.</p>}
    </section>
  )
}
