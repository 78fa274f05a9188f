import type { VNode } from 'preact'
import { storeTime } from '../state/live-overview.ts'
import { duration, exactTime, relativeTime } from '../text/times.ts'

/** An instant by the clock of a store, relative to now; the exact one is its title. */
export function Instant({ at, store }: { readonly at: number | undefined; readonly store: string }): VNode | string {
  if (at === undefined) return '–'
  const exact = exactTime(at)
  return (
    <time dateTime={exact === 'unknown' ? undefined : new Date(at).toISOString()} title={exact}>
      {relativeTime(at, storeTime(store))}
    </time>
  )
}

/** From one instant to another; one text if the two are the same in words. */
export function TimeSpan({ first, last, store }: { readonly first: number; readonly last: number; readonly store: string }): VNode {
  const now = storeTime(store)
  return (
    <span class="muted span-of">
      <Instant at={first} store={store} />
      {relativeTime(first, now) !== relativeTime(last, now) && (
        <>
          {' to '}
          <Instant at={last} store={store} />
        </>
      )}
    </span>
  )
}

export function Age({ age }: { readonly age: number | undefined }): VNode {
  return <span title={age === undefined ? undefined : `${age} ms`}>{age === undefined ? '–' : duration(age)}</span>
}
