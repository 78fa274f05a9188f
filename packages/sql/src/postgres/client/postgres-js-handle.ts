import type { QueryTracker } from '../../contract/query-tracker.ts'
import { refuseControl } from '../transaction-control.ts'

/** The part of the `sql` of postgres.js, and of its transactions, that is used. */
export interface PostgresQueryable {
  unsafe(sql: string, parameters?: never[], options?: { prepare?: boolean | undefined }): PromiseLike<unknown>
}

export interface PostgresTransaction extends PostgresQueryable {
  savepoint(name: string, work: (transaction: PostgresTransaction) => unknown): Promise<unknown>
}

/**
 * The part of a query of postgres.js that is used. It is a promise that starts when it is awaited, and may be a fragment of another query, so it
 * cannot be wrapped: postgres.js must find its own object.
 */
export interface PostgresQuery extends Promise<unknown> {
  readonly strings: readonly string[]
  /** The values between the strings. */
  readonly args?: readonly unknown[] | undefined
  /** Sends the query. */
  handler: (query: PostgresQuery) => void
  /** Starts the query, once. */
  handle(): unknown
  executed: boolean
  /** Set by `cursor()`. */
  readonly cursorRows?: number | undefined
  reject(error: unknown): void
}

export interface QueryRules {
  /** Throws if the query may not be sent. */
  onStart(query: PostgresQuery): void
  /** `result` is its result, or a list with one for each of its statements. */
  onEnd(query: PostgresQuery, error?: unknown, result?: unknown): void
  /** Runs a savepoint of postgres.js. Its callback returns the promise that `unlessLost` creates. */
  scope<R>(start: (unlessLost: (working: Promise<R>) => Promise<R>) => Promise<R>): Promise<R>
}

export interface FollowOptions {
  /** May refuse to start the query. Default: starts it. */
  readonly run?: (<T>(start: () => Promise<T>) => Promise<T>) | undefined
  /** Whether its failure fails the enclosing transaction or savepoint of postgres.js, even if the error was caught. Default: false. */
  readonly failsTransaction?: boolean | undefined
}

/** Follows a query from its start to its end. */
export function follow(query: PostgresQuery, rules: QueryRules, options: FollowOptions = {}): PostgresQuery {
  const { run = (start) => start(), failsTransaction = false } = options
  const { handler } = query
  query.handler = function send(sent) {
    // postgres.js learns of the failure through this call. It would then refuse to commit, even if a savepoint of the library has undone the failure.
    if (!failsTransaction) sent.catch = () => sent
    handler(sent)
    Reflect.deleteProperty(sent, 'catch')
  }
  let started = false
  query.handle = function handle() {
    if (started) return
    started = true
    run(async () => {
      rules.onStart(query)
      Object.getPrototypeOf(query).handle.call(query)
      // With a cursor the promise may never settle.
      if (query.cursorRows === undefined) await end(query, rules)
      else rules.onEnd(query)
    }).catch((error: unknown) => {
      query.executed = true
      query.reject(error)
    })
  }
  return query
}

/** Observes the end without starting the query, as `then` of postgres.js would. */
function end(query: PostgresQuery, rules: QueryRules): Promise<void> {
  return Promise.prototype.then.call(
    query,
    (result: unknown) => rules.onEnd(query, undefined, result),
    (error: unknown) => {
      rules.onEnd(query, error)
      throw error
    },
  ) as Promise<void>
}

/** The `sql` of a transaction, in all of its forms, with every query tracked. */
export function trackedHandle(
  transaction: PostgresTransaction,
  tracker: QueryTracker,
  rules: QueryRules,
  failsTransaction: boolean = false,
): PostgresQueryable {
  function tracked(made: unknown): unknown {
    // The same function also creates identifiers and lists for queries.
    if (!isQuery(made)) return made
    return follow(made, rules, {
      failsTransaction,
      run: (start) =>
        tracker.run(async () => {
          const text = textOf(made)
          // The text of a file is read when it is sent, and may end the transaction without an answer that postgres.js passes on.
          if (text === undefined) tracker.refuseInGroup()
          refuseControl(text, tracker)
          return await start()
        }),
    })
  }

  /** Inside, the rule of postgres.js applies: a failed query undoes its savepoint. */
  function savepoint(...given: unknown[]): Promise<unknown> {
    const work = given.pop()
    if (typeof work !== 'function') return savepoint((nested: Call) => nested(...given, work))
    return tracker.run(() => {
      void tracker.admitSavepoint()
      return rules.scope((unlessLost) =>
        forms.savepoint(...given, (nested: PostgresTransaction) =>
          unlessLost((async () => await work(trackedHandle(nested, tracker, rules, true)))()),
        ),
      )
    })
  }

  // `prepare` would end the transaction.
  const { prepare: _, ...forms } = transaction as unknown as Forms
  const call = transaction as unknown as Call
  const handle = Object.assign((...given: unknown[]) => tracked(call(...given)), forms, {
    unsafe: (...given: unknown[]) => tracked(forms.unsafe(...given)),
    file: (...given: unknown[]) => tracked(forms.file(...given)),
    savepoint,
  })
  // Callers have the types of their own client.
  return handle as unknown as PostgresQueryable
}

/** The text, as far as it shows which statements there are: identifiers and values are omitted, and a query may contain others. */
function textOf({ strings, args = [] }: PostgresQuery): string | undefined {
  if (strings.length < 2) return strings[0]
  return strings.map((text, index) => `${text} ${isQuery(args[index]) ? textOf(args[index]) : '?'} `).join('')
}

type Call = (...given: unknown[]) => unknown

interface Forms {
  readonly unsafe: Call
  readonly file: Call
  readonly prepare: Call
  readonly savepoint: (...given: unknown[]) => Promise<unknown>
}

function isQuery(made: unknown): made is PostgresQuery {
  return made instanceof Promise && 'handler' in made && 'strings' in made
}
