// @ts-check
import { setTimeout as sleep } from 'node:timers/promises'

/**
 * Calls `ask` repeatedly until the result is neither `undefined` nor `false`, and resolves to it. An error
 * counts as "not yet"; past the deadline the last error is the cause of the rejection.
 *
 * @template T
 * @param {string} what completes the sentence "… did not happen within 10 s"
 * @param {() => T | Promise<T>} ask
 * @param {{ timeout?: number, interval?: number }} [options] milliseconds. Default: 10 000 and 25.
 * @returns {Promise<Exclude<T, undefined | false>>}
 */
export async function waitUntil(what, ask, { timeout = 10_000, interval = 25 } = {}) {
  const deadline = performance.now() + timeout
  for (;;) {
    /** @type {unknown} */
    let cause
    try {
      const answer = await ask()
      if (answer !== undefined && answer !== false) return /** @type {Exclude<T, undefined | false>} */ (answer)
    } catch (error) {
      cause = error
    }
    if (performance.now() > deadline) {
      const reason = cause instanceof Error ? `: ${cause.message}` : ''
      throw new Error(`${what} did not happen within ${Math.round(timeout / 100) / 10} s${reason}`, { cause })
    }
    await sleep(interval)
  }
}
