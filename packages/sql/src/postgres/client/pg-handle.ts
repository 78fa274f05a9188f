import type { QueryTracker } from '../../contract/query-tracker.ts'
import type { Lane } from '../../contract/statement-queue.ts'
import { refuseControl } from '../transaction-control.ts'
import type { PgQueryable, PgResult } from './pg-session.ts'

/** What the handles of a transaction share. */
export interface TrackedSession {
  readonly client: PgQueryable
  readonly lane: Lane
  /** Whether statements of ours wait for the next round trip. */
  readonly hasWaiting: () => boolean
  /** Whether a statement of the user's has ended the transaction. */
  readonly hasEnded: () => boolean
  /** Carries them out, then starts. Rejects if the transaction has ended. */
  readonly afterWaiting: <T>(start: () => Promise<T>) => Promise<T>
  /** Whether the client takes a callback in place of giving a promise, as those of pg do. */
  readonly callsBack: boolean
  /** Throws if the connection is not to be used any more. */
  readonly checkUsable: () => void
  /** Told of each cursor or stream. */
  readonly onSubmit: (given: unknown) => void
}

type Given = readonly unknown[]

/** `query` in the forms that pg has: text and values, a configuration, with a callback, or something to submit (a cursor, a stream). */
class TrackedHandle {
  readonly #session: TrackedSession
  readonly #tracker: QueryTracker

  constructor(session: TrackedSession, tracker: QueryTracker) {
    this.#session = session
    this.#tracker = tracker
  }

  /** Bound, because it may be called on a proxy or by itself. */
  readonly query = (...given: Given): unknown => {
    const first = given[0]
    if (isObject(first) && 'submit' in first) return this.#submit(given)
    const callback = given.at(-1)
    if (typeof callback !== 'function') return this.#run(given)
    this.#run(given.slice(0, -1)).then(
      (result) => callback(null, result),
      (error: unknown) => callback(error),
    )
    return undefined
  }

  #submit(given: Given): unknown {
    refuseControl(textOf(given[0]), this.#tracker)
    this.#tracker.checkOpen()
    this.#session.checkUsable()
    this.#session.onSubmit(given[0])
    // They go to the client's queue in this turn, one after the other. A BEGIN that fails has lost its connection, and the rest with it.
    this.#session.afterWaiting(async () => {}).catch(() => {})
    return send(this.#session, given)
  }

  #run(given: Given): Promise<PgResult> {
    const { lane, hasWaiting, hasEnded, afterWaiting, callsBack } = this.#session
    try {
      refuseControl(textOf(given[0]), this.#tracker)
    } catch (error) {
      return Promise.reject(error)
    }
    if (callsBack && !lane.busy && !hasWaiting() && !hasEnded() && isCopied(given[0])) return this.#runAtOnce(given)
    return this.#tracker.run(() => lane.run(() => afterWaiting(() => send(this.#session, given) as Promise<PgResult>)))
  }

  /**
   * What most queries come to. Not by the promises of pg: with a context in the ambient storage they drag whole messages into the old space,
   * where they wait for a full collection.
   */
  #runAtOnce(given: Given): Promise<PgResult> {
    const tracker = this.#tracker
    const { lane, checkUsable } = this.#session
    try {
      checkUsable()
      tracker.begin()
    } catch (error) {
      return Promise.reject(error)
    }
    const query = new Promise<PgResult>((resolve) => {
      let isAnswered = false
      const answer = (error: unknown, result?: PgResult): void => {
        // pg calls twice where it could not write a parameter.
        if (isAnswered) return
        isAnswered = true
        // Whoever waits for it comes first, and may start the next one: only then is it over.
        if (result !== undefined) {
          resolve(result)
          lane.leave(query)
          tracker.done()
          return
        }
        const failed = () => {
          lane.failure = error
          lane.leave(query)
          tracker.failed(error)
        }
        // Also for one that nobody awaits: that is reported by the COMMIT, not by the end of the process.
        resolve(rejectedLater(error, () => query.catch(failed)))
      }
      try {
        // The callback has its place, whatever was given for it.
        send(this.#session, [copyOf(given[0]), given[1], answer])
      } catch (error) {
        answer(error)
      }
    })
    lane.take(query)
    return query
  }
}

export function trackedHandle(session: TrackedSession, tracker: QueryTracker): PgQueryable {
  // Callers know by the form they use what it gives back.
  return new TrackedHandle(session, tracker) as PgQueryable
}

function send({ client }: TrackedSession, given: Given): unknown {
  return (client.query as (...forwarded: unknown[]) => unknown).apply(client, [...given])
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null
}

/** Of a configuration or a cursor; a stream has a cursor. */
function textOf(first: unknown): unknown {
  if (!isObject(first)) return first
  if ('text' in first) return first.text
  return 'cursor' in first ? textOf(first.cursor) : undefined
}

/** pg writes a callback into the configuration that it is given: the caller's own must not change. */
function copyOf(first: unknown): unknown {
  return isObject(first) ? { ...first } : first
}

/** Whether a text, or a configuration of which a copy is as good. */
function isCopied(first: unknown): boolean {
  if (typeof first === 'string') return true
  return isObject(first) && Object.getPrototypeOf(first) === Object.prototype && !('callback' in first)
}

/**
 * As pg does it: the stack is to tell who asked, and not that a packet came in. V8 finds that by who waits for the promise in which the stack is
 * taken, if it is one only: so it is done when somebody waits, and before we do.
 */
async function rejectedLater(error: unknown, before: () => void): Promise<never> {
  await undefined
  await undefined
  if (error instanceof Error) Error.captureStackTrace(error)
  before()
  throw error
}
