import type { Message } from '../message/message.ts'
import type { Runtime } from '../ports/runtime.ts'

/** The maximum number of returned messages that are remembered: a sample is enough. */
const maxRemembered = 1000
/** So many consecutive messages that come back too early mean that the broker has no delays, or has just lost a connection. */
const maxEarly = 20

/** Finds out whether the broker ignores the delays of nacked messages, which would be redelivered in a hot loop. */
export class EarlyReturns {
  readonly #runtime: Runtime
  readonly #onIgnored: (event: { readonly isFirst: boolean }) => void
  /** When half of the delay is over, by message. */
  readonly #expected = new Map<string, number>()
  #early = 0
  #isFirst = true

  constructor(runtime: Runtime, onIgnored: (event: { readonly isFirst: boolean }) => void) {
    this.#runtime = runtime
    this.#onIgnored = onIgnored
  }

  /** A message was nacked with this delay. */
  returned(message: Message, delay: number): void {
    if (this.#expected.size >= maxRemembered) {
      const [oldest] = this.#expected.keys()
      if (oldest !== undefined) this.#expected.delete(oldest)
    }
    this.#expected.set(keyOf(message), this.#runtime.monotonic() + delay / 2)
  }

  /** A message was read. Calls back once enough have come back too early. */
  received(message: Message): void {
    if (this.#expected.size === 0) return
    const key = keyOf(message)
    const expected = this.#expected.get(key)
    if (expected === undefined) return
    this.#expected.delete(key)
    if (this.#runtime.monotonic() >= expected) this.#early = 0
    else this.#early += 1
    if (this.#early < maxEarly) return
    this.#early = 0
    this.#onIgnored({ isFirst: this.#isFirst })
    this.#isFirst = false
  }
}

function keyOf({ id = '', source = '' }: Message): string {
  return `${source.length} ${source}${id}`
}
