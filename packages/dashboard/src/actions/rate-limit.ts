import type { Runtime } from '@ackord/core'
import { tooMany } from '../http/api-failure.ts'

const minute = 60_000
/** Names that are remembered before old ones are looked for. */
const maxNames = 1000

/** How often each user may do something. */
export class RateLimit {
  readonly #runtime: Runtime
  readonly #maxPerMinute: number
  readonly #times = new Map<string, readonly number[]>()

  constructor(runtime: Runtime, maxPerMinute: number) {
    this.#runtime = runtime
    this.#maxPerMinute = maxPerMinute
  }

  /** Counts one more. Throws if it is one too many. */
  take(name: string): void {
    const recent = this.#recent(name)
    if (recent.length >= this.#maxPerMinute)
      throw tooMany(`More than ${this.#maxPerMinute} requests of this kind in a minute. Try again later.`)
    if (this.#times.size >= maxNames) for (const each of this.#times.keys()) if (this.#recent(each).length === 0) this.#times.delete(each)
    this.#times.set(name, [...recent, this.#runtime.monotonic()])
  }

  #recent(name: string): readonly number[] {
    const now = this.#runtime.monotonic()
    return (this.#times.get(name) ?? []).filter((time) => now - time < minute)
  }
}
