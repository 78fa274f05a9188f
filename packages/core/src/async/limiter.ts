/** Limits the number of concurrent calls; the others wait in order, or leave when their signal is aborted. */
export function limiter(limit: number): <R>(work: () => Promise<R>, signal: AbortSignal) => Promise<R> {
  let running = 0
  const waiting = new Set<() => void>()

  async function turn(signal: AbortSignal): Promise<void> {
    if (running < limit) {
      running += 1
      return
    }
    await new Promise<void>((resolve, reject) => {
      const start = () => {
        signal.removeEventListener('abort', leave)
        resolve()
      }
      const leave = () => {
        waiting.delete(start)
        reject(signal.reason)
      }
      if (signal.aborted) {
        reject(signal.reason)
        return
      }
      waiting.add(start)
      signal.addEventListener('abort', leave, { once: true })
    })
  }

  return async function limited(work, signal) {
    await turn(signal)
    try {
      return await work()
    } finally {
      // The slot passes directly to the call that has waited longest, so that no other call can take it.
      const [next] = waiting
      if (next === undefined) {
        running -= 1
      } else {
        waiting.delete(next)
        next()
      }
    }
  }
}
