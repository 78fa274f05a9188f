import type { Runtime } from './runtime.ts'

/** Milliseconds that a broker gets to answer when something is closed or given back. A connection that is dead and does not know it must not hold up a stop. */
export const answerTimeout = 5000

/** Resolves when the promise has settled, either way, or when the time is over. */
export async function settledWithin(runtime: Runtime, limit: number, promise: Promise<unknown>): Promise<void> {
  await new Promise<void>((resolve) => {
    const timer = runtime.setTimeout(resolve, limit)
    const settled = () => {
      timer.cancel()
      resolve()
    }
    promise.then(settled, settled)
  })
}
