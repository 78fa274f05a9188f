import { idle, systemRuntime } from '@ackord/core'

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
  let changedAt = systemRuntime.now()
  for (;;) {
    signal.throwIfAborted()
    if (await isDone()) return true
    const now = progress()
    if (now !== seen) changedAt = systemRuntime.now()
    else if (systemRuntime.now() - changedAt > patience) return false
    seen = now
    await idle(systemRuntime, pause, signal)
  }
}
