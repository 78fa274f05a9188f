import type { VNode } from 'preact'
import type { RecordQuery } from '../../src/api/types.ts'
import { duration } from '../text/times.ts'
import { visibleText } from '../text/visible-text.ts'
import { RouteLink } from './route-link.tsx'

const labels = {
  destination: 'destination',
  type: 'type',
  id: 'record',
  messageId: 'message',
  orderingKey: 'key',
  error: 'error contains',
  cause: 'failure',
  minAge: 'older than',
  maxAge: 'newer than',
} as const

/** The filters in effect, each with a link that removes it. */
export function FilterChips({ store, query }: { readonly store: string; readonly query: RecordQuery }): VNode | null {
  const names = (Object.keys(labels) as (keyof typeof labels)[]).filter((name) => query[name] !== undefined)
  if (names.length === 0) return null
  return (
    <ul class="chips" aria-label="Filters in effect">
      {names.map((name) => {
        const value = query[name] ?? ''
        const text = typeof value === 'number' ? duration(value) : shownValue(value)
        return (
          <li key={name} class="chip">
            <span>
              {labels[name]} <b>{text}</b>
            </span>
            <RouteLink to={{ page: 'records', store, query: { ...query, [name]: undefined, after: undefined } }} title="Remove this filter">
              <span class="hidden">Remove the filter {labels[name]}</span>
              <span aria-hidden="true">×</span>
            </RouteLink>
          </li>
        )
      })}
      {names.length > 1 && (
        <li>
          <RouteLink to={{ page: 'records', store, query: { state: query.state } }}>Remove all</RouteLink>
        </li>
      )}
    </ul>
  )
}

/** A value that the server has redacted is an opaque text. */
function shownValue(value: string): string {
  return value.startsWith('redacted:') ? 'redacted' : visibleText(value)
}
