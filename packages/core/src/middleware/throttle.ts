import { outside } from '../message/context.ts'
import { checkCount, checkDuration } from '../options.ts'
import { type Runtime, systemRuntime, type Timer } from '../ports/runtime.ts'
import { type Middleware, middleware } from './middleware.ts'

export interface ThrottleOptions {
  /** The average number of messages that may start per interval. */
  readonly rate: number
  /** In milliseconds. Default: 1,000. */
  readonly interval?: number | undefined
  /** The number of messages that may start at the same time after a quiet period. Default: `rate`. */
  readonly burst?: number | undefined
  /** Default: `systemRuntime`. */
  readonly runtime?: Runtime | undefined
}

/** Limits the rate at which messages start, in the order of their arrival. One object is one limit, however many handlers use it. */
export function throttleMiddleware(options: ThrottleOptions): Middleware {
  const { rate, interval = 1000, burst = rate, runtime = systemRuntime } = options
  checkCount('rate', rate)
  checkDuration('interval', interval, { min: 1 })
  checkCount('burst', burst)
  const bucket = new TokenBucket(interval / rate, burst, runtime)

  return middleware(
    { role: 'throttle' },
    (next) =>
      async function throttle(message, context) {
        await bucket.acquire(context.signal)
        return await next(message, context)
      },
  )
}

class TokenBucket {
  readonly #spacing: number
  readonly #burst: number
  readonly #runtime: Runtime
  // In the order of arrival; a Set, so that a message can leave without a search.
  readonly #waiting = new Set<() => void>()
  #tokens: number
  #filledAt: number
  #timer: Timer | undefined

  /** One token is added every `spacing` milliseconds, and up to `burst` are kept. */
  constructor(spacing: number, burst: number, runtime: Runtime) {
    this.#spacing = spacing
    this.#burst = burst
    this.#runtime = runtime
    this.#tokens = burst
    this.#filledAt = runtime.monotonic()
  }

  async acquire(signal: AbortSignal): Promise<void> {
    signal.throwIfAborted()
    this.#fill()
    // An available token belongs to the messages that already wait.
    if (this.#waiting.size === 0 && this.#tokens >= 1) {
      this.#tokens -= 1
      return
    }
    await new Promise<void>((resolve, reject) => {
      const grant = () => {
        signal.removeEventListener('abort', onAbort)
        resolve()
      }
      const onAbort = () => {
        this.#leave(grant)
        reject(signal.reason)
      }
      signal.addEventListener('abort', onAbort, { once: true })
      this.#waiting.add(grant)
      this.#schedule()
    })
  }

  #leave(grant: () => void): void {
    this.#waiting.delete(grant)
    if (this.#waiting.size > 0) return
    this.#timer?.cancel()
    this.#timer = undefined
  }

  #fill(): void {
    const now = this.#runtime.monotonic()
    this.#tokens = Math.min(this.#burst, this.#tokens + (now - this.#filledAt) / this.#spacing)
    this.#filledAt = now
  }

  /** One timer, for the first in the queue; outside of the message's context, which it would keep alive while it is renewed. */
  #schedule(): void {
    if (this.#timer !== undefined || this.#waiting.size === 0) return
    const delay = Math.max(1, Math.ceil((1 - this.#tokens) * this.#spacing))
    this.#timer = outside(() => this.#runtime.setTimeout(() => this.#serve(), delay))
  }

  #serve(): void {
    this.#timer = undefined
    this.#fill()
    for (const grant of this.#waiting) {
      if (this.#tokens < 1) break
      this.#tokens -= 1
      this.#waiting.delete(grant)
      grant()
    }
    this.#schedule()
  }
}
