import { once } from 'node:events'
import { idle, systemRuntime } from '@ackord/core'
import { abortable } from '@ackord/core/internal'

/** Longer than it takes a server that answers, shorter than those wait who told the command to stop. */
const limit = 5000

/** Waits until it is closed, but not for a server that does not answer any more: what is open then ends with the process. */
export async function closeWithin(close: () => Promise<void>): Promise<void> {
  const late = new AbortController()
  const timer = systemRuntime.setTimeout(() => late.abort(), limit)
  try {
    await Promise.race([close(), aborted(late.signal)])
  } finally {
    timer.cancel()
  }
}

/** Resolves when the signal is aborted. Keeps nothing alive. */
export async function aborted(signal: AbortSignal): Promise<void> {
  if (!signal.aborted) await once(signal, 'abort')
}

/** What is being opened, or the signal's reason if that comes first; what is opened too late is closed again. */
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
  /** Milliseconds for which nothing may change. */
  readonly patience: number
  /** What shows that something happens: it is compared from look to look. */
  readonly progress: () => string
}

/** Between two looks. */
const pause = 50

/** Looks again and again until it is done; `false` if nothing has changed for as long as patience lasts. An abort is thrown. */
export async function waitFor(isDone: () => boolean | Promise<boolean>, { signal, patience, progress }: WaitOptions): Promise<boolean> {
  let seen = progress()
  let changedAt = systemRuntime.monotonic()
  for (;;) {
    signal.throwIfAborted()
    if (await isDone()) return true
    const now = progress()
    if (now !== seen) changedAt = systemRuntime.monotonic()
    else if (systemRuntime.monotonic() - changedAt > patience) return false
    seen = now
    await idle(systemRuntime, pause, signal)
  }
}
