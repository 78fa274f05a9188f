import type { Runtime } from '@ackord/core'
import type { NatsConnection } from './client.ts'
import type { ConnectionWatch } from './connection-watch.ts'

interface SentVerdict {
  readonly reply: string
  readonly verdict: Uint8Array
}

/**
 * Verdicts that end a message. Those of one turn of the event loop are sent together: one by one, each would be a write to the socket, which costs more than all the rest.
 *
 * What was sent since the last round trip is kept: NATS answers none of them, and those that are lost with a connection would be found out by their messages
 * coming again, after `ack_wait`. They are sent once more when the connection is back; JetStream takes no notice of those that it has got.
 */
export class SentVerdicts {
  readonly #connection: NatsConnection
  readonly #watch: ConnectionWatch
  readonly #runtime: Runtime
  readonly #unsent: SentVerdict[] = []
  readonly #unsure: SentVerdict[] = []
  #isAsking = false
  #forget: (() => void) | undefined

  constructor(connection: NatsConnection, watch: ConnectionWatch, runtime: Runtime) {
    this.#connection = connection
    this.#watch = watch
    this.#runtime = runtime
  }

  /** At the end of this turn, or when the connection is back. */
  send(reply: string, verdict: Uint8Array): void {
    this.#unsent.push({ reply, verdict })
    this.#forget ??= this.#watch.onChange(() => this.#sendAgain())
    if (this.#unsent.length === 1) void this.#sendAfterTurn()
  }

  /** Never throws: what a connection that is being closed does not take comes again. */
  sendNow(): void {
    if (this.#unsent.length === 0 || !this.#watch.isUp) return
    const verdicts = this.#unsent.splice(0)
    this.#unsure.push(...verdicts)
    this.#publish(verdicts)
    if (!this.#isAsking) void this.#confirm()
  }

  async #sendAfterTurn(): Promise<void> {
    await this.#runtime.yield?.()
    this.sendNow()
  }

  /** One round trip at a time, for all that was sent before it. */
  async #confirm(): Promise<void> {
    this.#isAsking = true
    while (this.#unsure.length > 0 && this.#watch.isUp) {
      const sent = this.#unsure.length
      try {
        await this.#connection.flush()
      } catch {
        break
      }
      this.#unsure.splice(0, sent)
    }
    this.#isAsking = false
    if (this.#unsure.length + this.#unsent.length === 0) this.#stop()
  }

  #sendAgain(): void {
    if (this.#watch.over !== undefined) {
      this.#unsure.length = 0
      this.#unsent.length = 0
      this.#stop()
      return
    }
    if (!this.#watch.isUp) return
    this.#publish(this.#unsure)
    this.sendNow()
    if (!this.#isAsking) void this.#confirm()
  }

  #publish(verdicts: readonly SentVerdict[]): void {
    try {
      for (const { reply, verdict } of verdicts) this.#connection.publish(reply, verdict)
    } catch {
      // The connection is being closed, by its owner or for good.
    }
  }

  #stop(): void {
    this.#forget?.()
    this.#forget = undefined
  }
}
