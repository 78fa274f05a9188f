import type { NatsConnection } from './client.ts'
import type { ConnectionWatch } from './connection-watch.ts'

interface SentVerdict {
  readonly reply: string
  readonly verdict: Uint8Array
}

/**
 * Verdicts that end a message, sent since the last round trip: NATS answers none of them, and those that are lost with a connection would be found out by their messages
 * coming again, after `ack_wait`. They are sent once more when the connection is back; JetStream takes no notice of those that it has got.
 */
export class SentVerdicts {
  readonly #connection: NatsConnection
  readonly #watch: ConnectionWatch
  readonly #unsure: SentVerdict[] = []
  #isAsking = false
  #forget: (() => void) | undefined

  constructor(connection: NatsConnection, watch: ConnectionWatch) {
    this.#connection = connection
    this.#watch = watch
  }

  /** Throws as the client does. */
  send(reply: string, verdict: Uint8Array): void {
    this.#connection.publish(reply, verdict)
    this.#unsure.push({ reply, verdict })
    this.#forget ??= this.#watch.onChange(() => this.#sendAgain())
    if (!this.#isAsking) void this.#confirm()
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
    if (this.#unsure.length === 0) this.#stop()
  }

  #sendAgain(): void {
    if (this.#watch.over !== undefined) {
      this.#unsure.length = 0
      this.#stop()
      return
    }
    if (!this.#watch.isUp) return
    for (const { reply, verdict } of this.#unsure) this.#connection.publish(reply, verdict)
    if (!this.#isAsking) void this.#confirm()
  }

  #stop(): void {
    this.#forget?.()
    this.#forget = undefined
  }
}
