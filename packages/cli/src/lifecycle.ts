import { once } from 'node:events'
import { idle, systemRuntime } from '@ackord/core'
import { abortable } from '@ackord/core/internal'

/** Longer than a healthy server needs, shorter than the time-out of the supervisor that stopped the command. */
const closeLimit = 5000

/** Waits for the close, but not for a server that does not answer any more: open connections then end with the process. */
export async function closeWithin(close: () => Promise<void>): Promise<void> {
  await endsWithin(close, closeLimit)
}

/** Waits for the work, but at most `limit` milliseconds. Resolves to whether it ended in time; if it fails in time, rejects. */
export async function endsWithin(work: () => Promise<unknown>, limit: number): Promise<boolean> {
  const late = new AbortController()
  const timer = systemRuntime.setTimeout(() => late.abort(), limit)
  try {
    return await Promise.race([work().then(() => true), aborted(late.signal).then(() => false)])
  } finally {
    timer.cancel()
  }
}

/** Resolves when the signal is aborted. Does not keep the process alive. */
export async function aborted(signal: AbortSignal): Promise<void> {
  if (!signal.aborted) await once(signal, 'abort')
}

/** Resolves to the opened resource, or rejects with the signal's reason if that comes first; a resource that is opened too late is closed again. */
export async function unlessAborted<T extends AsyncDisposable>(opening: Promise<T>, signal: AbortSignal): Promise<T> {
  try {
    return await abortable(opening, signal)
  } catch (error) {
    if (signal.aborted) void opening.then((late) => late[Symbol.asyncDispose]()).then(undefined, () => {})
    throw error
  }
}

export interface WaitOptions {
  readonly signal: AbortSignal
  /** Milliseconds without progress after which the wait ends. */
  readonly stallTimeout: number
  /** A measure of progress: it is compared between two checks. */
  readonly progress: () => string
}

/** Milliseconds between two checks. */
const pause = 50

/** Checks repeatedly until it is done; `false` if there was no progress for `stallTimeout` milliseconds. An abort is thrown. */
export async function waitFor(isDone: () => boolean | Promise<boolean>, { signal, stallTimeout, progress }: WaitOptions): Promise<boolean> {
  let seen = progress()
  let changedAt = systemRuntime.monotonic()
  for (;;) {
    signal.throwIfAborted()
    if (await isDone()) return true
    const now = progress()
    if (now !== seen) changedAt = systemRuntime.monotonic()
    else if (systemRuntime.monotonic() - changedAt > stallTimeout) return false
    seen = now
    await idle(systemRuntime, pause, signal)
  }
}
