import { abortable } from '@ackord/core/internal'
import type { Isolation } from '../contract/dialect.ts'
import { CommitUnknownError } from '../errors.ts'

export interface CallbackTransactionOptions {
  readonly signal: AbortSignal
  /** Whether the answer to COMMIT, an error of the server, means that nothing was committed. */
  readonly refusedCommit: (error: unknown) => boolean
  /** The error of the server behind that of the client. Default: it is the same. */
  readonly serverError?: ((error: unknown) => unknown) | undefined
  /** Told that the client gave up while the work was still going on. It is waited for all the same. */
  readonly onLost?: ((error: unknown) => void) | undefined
}

/** Begins, calls back, commits if that resolves and rolls back if it rejects: how clients and ORMs do it. `isolation` is asked for before BEGIN. */
export type BeginTransaction<Transaction> = <R>(work: (transaction: Transaction) => Promise<R>, isolation?: Isolation) => Promise<R>

/** Keeps what a `Driver` promises, in a transaction that the client's own function begins and ends. */
export async function callbackTransaction<Transaction, R>(
  begin: BeginTransaction<Transaction>,
  work: (transaction: Transaction) => Promise<R>,
  { signal, refusedCommit, serverError = (error) => error, onLost }: CallbackTransactionOptions,
): Promise<R> {
  let given = false
  let tooLate = false
  let working: Promise<R> | undefined
  let outcome: { readonly error?: unknown } | undefined
  let onStart: (() => void) | undefined
  const started = new Promise<void>((resolve) => {
    onStart = resolve
  })

  const ended = begin(async function workInside(transaction) {
    if (tooLate) throw signal.reason
    given = true
    onStart?.()
    working = work(transaction)
    try {
      const result = await working
      outcome = {}
      return result
    } catch (error) {
      outcome = { error }
      throw error
    }
  })

  try {
    // A pool may have no connection to give for a long time; an abort does not wait for it.
    await abortable(Promise.race([started, ended]), signal)
  } catch (error) {
    if (!given) {
      tooLate = true
      ended.catch(() => {})
      throw error
    }
  }
  try {
    return await ended
  } catch (error) {
    if (outcome === undefined && working !== undefined) {
      onLost?.(error)
      await working.catch(() => {})
      // It was set while we waited.
      throw (outcome as { readonly error?: unknown } | undefined)?.error ?? error
    }
    if (outcome === undefined) throw error
    // What the roll-back failed with says less.
    if ('error' in outcome) throw outcome.error
    if (refusedCommit(serverError(error))) throw error
    throw new CommitUnknownError(error)
  }
}
