import { abortable } from '@ackord/core/internal'
import type { Isolation } from '../contract/dialect.ts'
import { CommitUnknownError } from '../errors.ts'

export interface CallbackTransactionOptions {
  readonly signal: AbortSignal
  /** Whether the answer to COMMIT, a server error, means that nothing was committed. */
  readonly refusedCommit: (error: unknown) => boolean
  /** The server's error behind the client's. Default: the same error. */
  readonly serverError?: ((error: unknown) => unknown) | undefined
  /** Called when the client gives up while the work is still running. The work is awaited nevertheless. */
  readonly onLost?: ((error: unknown) => void) | undefined
}

/**
 * Begins, calls back, commits if the callback resolves and rolls back if it rejects, as clients and ORMs do. `isolation` is requested before BEGIN.
 */
export type BeginTransaction<Transaction> = <R>(work: (transaction: Transaction) => Promise<R>, isolation?: Isolation) => Promise<R>

/** Fulfils the contract of `Driver.transaction` in a transaction that the client's own function begins and ends. */
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
    // Waiting for a connection may take long; an abort does not wait for it.
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
      // Set while the work was awaited.
      throw (outcome as { readonly error?: unknown } | undefined)?.error ?? error
    }
    if (outcome === undefined) throw error
    // The error of the rollback is less useful.
    if ('error' in outcome) throw outcome.error
    if (refusedCommit(serverError(error))) throw error
    throw new CommitUnknownError(error)
  }
}
