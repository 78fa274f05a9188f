import type { Runtime } from '@ackord/core'

/** The work's own end, or a rejection, with its signal aborted, once the limit has passed or the signal is aborted. */
export async function limited<T>(
  runtime: Runtime,
  limit: number | undefined,
  signal: AbortSignal | undefined,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const ending = new AbortController()
  const over = new Promise<never>((_, reject) => {
    ending.signal.addEventListener('abort', () => reject(ending.signal.reason), { once: true })
  })
  const onAbort = () => ending.abort(new Error('it was given up'))
  signal?.addEventListener('abort', onAbort, { once: true })
  const timer = limit === undefined ? undefined : runtime.setTimeout(() => ending.abort(new Error('it took too long')), limit)
  try {
    return await Promise.race([work(ending.signal), over])
  } finally {
    timer?.cancel()
    signal?.removeEventListener('abort', onAbort)
  }
}
