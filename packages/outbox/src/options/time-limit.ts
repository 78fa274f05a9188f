import type { Runtime } from '@ackord/core'
import { abortable } from '@ackord/core/internal'

/** By so many milliseconds a timer is late only if the process did not run. */
const stalled = 1000

export interface TimeLimitOptions {
  /** Whether the work may answer to the abort itself, at once. Default: false. */
  readonly lastWord?: boolean | undefined
}

/**
 * What the work comes to, or a rejection with `late()` once the time is over. The signal is aborted then; what the work does afterwards is not waited for. If the
 * process did not run when the time was over, the answer may have been there all along: it gets another second.
 */
export async function withTimeLimit<T>(
  runtime: Runtime,
  limit: number,
  late: () => Error,
  work: (signal: AbortSignal) => Promise<T>,
  options: TimeLimitOptions = {},
): Promise<T> {
  const controller = new AbortController()
  const over = new AbortController()
  const startedAt = runtime.monotonic()
  const end = () => {
    const error = late()
    controller.abort(error)
    if (options.lastWord === true) timer = runtime.setTimeout(() => over.abort(error), 0)
    else over.abort(error)
  }
  let timer = runtime.setTimeout(() => {
    if (runtime.monotonic() - startedAt < limit + stalled) end()
    else timer = runtime.setTimeout(end, Math.min(limit, stalled))
  }, limit)
  try {
    return await abortable(work(controller.signal), over.signal)
  } finally {
    timer.cancel()
  }
}
