import { useSignal } from '@preact/signals'
import type { VNode } from 'preact'
import { useEffect } from 'preact/hooks'
import type { RecordQuery } from '../../src/api/types.ts'
import { storeOverview } from '../state/live-overview.ts'
import { goTo } from '../state/navigation.ts'
import { formatRecordQuery } from '../state/record-query.ts'
import { duration } from '../text/times.ts'
import { Choice } from './choice.tsx'

type TextField = 'destination' | 'type' | 'messageId' | 'id' | 'orderingKey' | 'error'

const fields: readonly (readonly [TextField, string])[] = [
  ['messageId', 'Message id'],
  ['destination', 'Destination'],
  ['type', 'Type'],
  ['orderingKey', 'Key'],
  ['error', 'Error contains'],
  ['id', 'Record id'],
]

const ages = [60_000, 300_000, 3_600_000, 86_400_000, 604_800_000]

export function FilterForm({ store, query }: { readonly store: string; readonly query: RecordQuery }): VNode {
  const draft = useSignal(query)
  const written = formatRecordQuery(query)
  useEffect(() => {
    draft.value = query
  }, [written])

  function search(changes: RecordQuery = {}) {
    goTo({ page: 'records', store, query: { ...trimmed({ ...draft.value, ...changes }), after: undefined } })
  }

  return (
    <details class="card filters" open={matchMedia('(min-width: 720px)').matches}>
      <summary>Filters</summary>
      <search aria-label="Records">
        <form
          onSubmit={(event) => {
            event.preventDefault()
            search()
          }}
        >
          {fields.map(([name, label]) => (
            <div class="field" key={name}>
              <label for={`filter-${name}`}>{label}</label>
              <input
                id={`filter-${name}`}
                type="search"
                autocomplete="off"
                spellcheck={false}
                list={name === 'destination' ? 'destinations' : undefined}
                value={draft.value[name] ?? ''}
                onInput={(event) => {
                  draft.value = { ...draft.value, [name]: event.currentTarget.value }
                }}
              />
            </div>
          ))}
          <Destinations store={store} />
          <Choice
            id="filter-age"
            label="Age"
            value={ageValue(query)}
            options={ageOptions(query)}
            onChoose={(value) => {
              const [kind, age] = value.split(' ')
              search({ minAge: kind === 'min' ? Number(age) : undefined, maxAge: kind === 'max' ? Number(age) : undefined })
            }}
          />
          <button type="submit" class="primary">
            Search
          </button>
        </form>
      </search>
    </details>
  )
}

/** A component of its own: it changes with each overview. */
function Destinations({ store }: { readonly store: string }): VNode {
  return (
    <datalist id="destinations">
      {storeOverview(store)?.destinations.map(({ destination }) => (
        <option key={destination} value={destination} />
      ))}
    </datalist>
  )
}

function trimmed(query: RecordQuery): RecordQuery {
  return Object.fromEntries(
    Object.entries(query).map(([name, value]) => [name, typeof value === 'string' ? value.trim() || undefined : value]),
  )
}

function ageValue({ minAge, maxAge }: RecordQuery): string {
  if (minAge !== undefined) return `min ${minAge}`
  return maxAge === undefined ? '' : `max ${maxAge}`
}

/** Includes ages from the address, which users can edit. */
function ageOptions({ minAge, maxAge }: RecordQuery): readonly (readonly [string, string])[] {
  const including = (age: number | undefined) => (age === undefined || ages.includes(age) ? ages : [...ages, age])
  return [
    ['', 'any'],
    ...including(minAge).map((age) => [`min ${age}`, `older than ${duration(age)}`] as const),
    ...including(maxAge).map((age) => [`max ${age}`, `newer than ${duration(age)}`] as const),
  ]
}
