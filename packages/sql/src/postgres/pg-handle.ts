import type { Lane } from '../lane.ts'
import type { QueryTracker } from '../query-tracker.ts'
import type { PgQueryable, PgResult } from './pg-session.ts'
import { refuseControl } from './refuse-control.ts'

export interface TrackedBy {
  readonly lane: Lane
  /** Carries out what must come before, then starts. */
  readonly afterWaiting: <T>(start: () => Promise<T>) => Promise<T>
  readonly tracker: QueryTracker
}

/** `query` in the forms that pg has: text and values, a configuration, with a callback, or something to submit (a cursor, a stream). */
export function trackedHandle(client: PgQueryable, { lane, afterWaiting, tracker }: TrackedBy): PgQueryable {
  const forward = client.query.bind(client) as (...given: unknown[]) => Promise<PgResult>

  function query(...given: unknown[]): Promise<PgResult> | undefined {
    const [first] = given
    const isObject = typeof first === 'object' && first !== null
    if (isObject && 'submit' in first) {
      tracker.checkOpen()
      // They go to the client's queue in this turn, one after the other. A BEGIN that fails has lost its connection, and the rest with it.
      afterWaiting(async () => {}).catch(() => {})
      return forward(...given)
    }
    const start = () => {
      refuseControl(isObject && 'text' in first ? first.text : first)
      return lane.run(() => afterWaiting(() => forward(...given)))
    }
    const callback = given.at(-1)
    if (typeof callback !== 'function') return tracker.run(start)
    given.pop()
    tracker.run(start).then(
      (result) => callback(null, result),
      (error: unknown) => callback(error),
    )
    return undefined
  }
  // Callers know by the form they use what it gives back.
  return { query: query as PgQueryable['query'] }
}
