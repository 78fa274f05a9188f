import type { StatementResult } from '../../contract/driver.ts'
import type { QueryTracker } from '../../contract/query-tracker.ts'
import type { StatementQueue } from '../../contract/statement-queue.ts'
import { refuseControl } from '../transaction-control.ts'

interface PgResult {
  readonly rows: unknown[]
  readonly rowCount: number | null
  readonly command: string
}

export interface PgQueryable {
  query(text: string, values?: unknown[]): Promise<PgResult>
  query(statement: { readonly name: string; readonly text: string; readonly values: unknown[] }): Promise<PgResult>
}

/** The state that the handles of a transaction share. */
export interface TrackedSession {
  readonly client: PgQueryable
  readonly queue: StatementQueue
  /** Whether statements of the library wait for the next round trip. */
  readonly hasWaiting: () => boolean
  /** Whether a statement of the user has ended the transaction. */
  readonly hasEnded: () => boolean
  /** Runs the waiting statements, then `start`. Rejects if the transaction has ended. */
  readonly afterWaiting: <T>(start: () => Promise<T>) => Promise<T>
  /** Whether the client accepts a callback instead of returning a promise, as pg does. */
  readonly callsBack: boolean
  /** Throws if the connection must not be used any more. */
  readonly checkUsable: () => void
  /** Called with each cursor or stream. */
  readonly onSubmit: (given: unknown) => void
}

type Given = readonly unknown[]

/** `query` in the forms of pg: text and values, a configuration, with a callback, or an object to submit (a cursor, a stream). */
class TrackedHandle {
  readonly #session: TrackedSession
  readonly #tracker: QueryTracker

  constructor(session: TrackedSession, tracker: QueryTracker) {
    this.#session = session
    this.#tracker = tracker
  }

  /** Bound, because it may be called on a proxy or detached. */
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
    // They enter the client's queue in this turn, one after the other. If BEGIN fails, the connection is lost, and the rest with it.
    this.#session.afterWaiting(async () => {}).catch(() => {})
    return send(this.#session, given)
  }

  #run(given: Given): Promise<PgResult> {
    const { queue, hasWaiting, hasEnded, afterWaiting, callsBack } = this.#session
    try {
      refuseControl(textOf(given[0]), this.#tracker)
    } catch (error) {
      return Promise.reject(error)
    }
    if (callsBack && !queue.busy && !hasWaiting() && !hasEnded() && isCopied(given[0])) return this.#runImmediately(given)
    return this.#tracker.run(() => queue.run(() => afterWaiting(() => send(this.#session, given) as Promise<PgResult>)))
  }

  /**
   * The path of most queries. It avoids the promises of pg: with a context in the async storage they move whole messages into the old space, where
   * they wait for a full garbage collection.
   */
  #runImmediately(given: Given): Promise<PgResult> {
    const tracker = this.#tracker
    const { queue, checkUsable } = this.#session
    try {
      checkUsable()
      tracker.begin()
    } catch (error) {
      return Promise.reject(error)
    }
    const query = new Promise<PgResult>((resolve) => {
      let isAnswered = false
      const answer = (error: unknown, result?: PgResult): void => {
        // pg calls back twice if it cannot serialise a parameter.
        if (isAnswered) return
        isAnswered = true
        // The caller continues first, and may start the next query: only then is this one over.
        if (result !== undefined) {
          resolve(result)
          queue.leave(query)
          tracker.done()
          return
        }
        const failed = () => {
          queue.failure = error
          queue.leave(query)
          tracker.failed(error)
        }
        // Also handles the rejection of an un-awaited query: the COMMIT reports it, and it must not end the process.
        resolve(rejectedLater(error, () => query.catch(failed)))
      }
      try {
        // The callback has a fixed position, whatever was passed for it.
        send(this.#session, [copyOf(given[0]), given[1], answer])
      } catch (error) {
        answer(error)
      }
    })
    queue.take(query)
    return query
  }
}

export function trackedHandle(session: TrackedSession, tracker: QueryTracker): PgQueryable {
  // Callers know the type of the result from the form they use.
  return new TrackedHandle(session, tracker) as PgQueryable
}

function send({ client }: TrackedSession, given: Given): unknown {
  return (client.query as (...forwarded: unknown[]) => unknown).apply(client, [...given])
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null
}

/** The text of a configuration or a cursor; a stream has a cursor. */
function textOf(first: unknown): unknown {
  if (!isObject(first)) return first
  if ('text' in first) return first.text
  return 'cursor' in first ? textOf(first.cursor) : undefined
}

/** pg writes a callback into the configuration it is given: the caller's object must not change. */
function copyOf(first: unknown): unknown {
  return isObject(first) ? { ...first } : first
}

/** Whether the argument is a string, or a configuration that can be copied. */
function isCopied(first: unknown): boolean {
  if (typeof first === 'string') return true
  return isObject(first) && Object.getPrototypeOf(first) === Object.prototype && !('callback' in first)
}

/**
 * As in pg: the stack trace should show the caller, not that a packet arrived. V8 finds the caller through the single awaiter of the promise in which
 * the stack is captured: so it is captured once the caller awaits it, and before this library does.
 */
async function rejectedLater(error: unknown, before: () => void): Promise<never> {
  await undefined
  await undefined
  if (error instanceof Error) Error.captureStackTrace(error)
  before()
  throw error
}

/** Reads an answer of `pg` that an ORM passes on. Several statements have several answers, which are not used. */
export function readPgResult(answer: unknown): StatementResult {
  const { rows = [], rowCount } = answer as { readonly rows?: StatementResult['rows']; readonly rowCount?: number | null }
  return { rows, count: countOf(rowCount) ?? 0 }
}

/** `undefined` for a command that counts no rows, such as COMMIT: the native client of pg reports NaN there, the other one null. */
export function countOf(rowCount: number | null | undefined): number | undefined {
  return typeof rowCount === 'number' && !Number.isNaN(rowCount) ? rowCount : undefined
}

/** Whether this is a client of `pg.native`, which uses libpq. */
export function isNative(client: unknown): boolean {
  return typeof client === 'object' && client !== null && 'native' in client
}

/**
 * Parameters of a statement of the library for the native client of pg. It passes every parameter to libpq as a C string: bytes would be cut off at
 * the first zero, and backslashes read as escapes. As PostgreSQL's hexadecimal format they arrive unchanged.
 */
export function nativeParameters(parameters: readonly unknown[]): unknown[] {
  return parameters.map((value) => (value instanceof Uint8Array ? `\\x${hexOf(value)}` : value))
}

function hexOf({ buffer, byteOffset, byteLength }: Uint8Array): string {
  return Buffer.from(buffer, byteOffset, byteLength).toString('hex')
}
