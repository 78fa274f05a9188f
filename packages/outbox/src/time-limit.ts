import type { Runtime } from '@ackord/core'
import { abortable } from '@ackord/core/internal'

/** What the work comes to, or a rejection with `late()` once the time is over. The signal is aborted then; what the work does afterwards is not waited for. */
export async function withTimeLimit<T>(
  runtime: Runtime,
  limit: number,
  late: () => Error,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const controller = new AbortController()
  const timer = runtime.setTimeout(() => controller.abort(late()), limit)
  try {
    return await abortable(work(controller.signal), controller.signal)
  } finally {
    timer.cancel()
  }
}
