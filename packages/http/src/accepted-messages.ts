import { AckordError, type Runtime, type Timer } from '@ackord/core'
import type { HeldMessage } from './held-message.ts'
import type { EventContent } from './read-events.ts'

/**
 * Messages whose requests were answered with 202 before they were handled. Nobody sends them again, so what is nacked is delivered again from
 * here. They are in memory only.
 */
export class AcceptedMessages {
  readonly #runtime: Runtime
  readonly #deliver: (messages: readonly HeldMessage[]) => boolean
  readonly #unsettled = new Set<HeldMessage>()
  readonly #timers = new Map<HeldMessage, Timer>()
  // Those that no iteration is there for.
  #homeless: HeldMessage[] = []
  #disposed = false

  /** `deliver` hands them to an iteration; `false` if there is none. */
  constructor(runtime: Runtime, deliver: (messages: readonly HeldMessage[]) => boolean) {
    this.#runtime = runtime
    this.#deliver = deliver
  }

  get size(): number {
    return this.#unsettled.size
  }

  accept(contents: readonly EventContent[]): void {
    const messages = contents.map((content) => this.#hold(content))
    this.#pass(messages)
  }

  /** An iteration has begun. */
  resume(): void {
    this.#pass(this.#homeless.splice(0))
  }

  /** How many are lost with it. */
  dispose(): number {
    this.#disposed = true
    for (const timer of this.#timers.values()) timer.cancel()
    this.#timers.clear()
    this.#homeless = []
    const lost = this.#unsettled.size
    this.#unsettled.clear()
    return lost
  }

  #hold(content: EventContent): HeldMessage {
    const message: HeldMessage = {
      take: () => content,
      ack: () => {
        this.#checkOpen()
        this.#unsettled.delete(message)
      },
      nack: (retryAfter) => {
        this.#checkOpen()
        const again = () => {
          this.#timers.delete(message)
          this.#pass([message])
        }
        this.#timers.set(message, this.#runtime.setTimeout(again, retryAfter))
      },
      giveBack: () => {
        if (!this.#disposed) this.#pass([message])
      },
    }
    this.#unsettled.add(message)
    return message
  }

  #pass(messages: readonly HeldMessage[]): void {
    if (messages.length > 0 && !this.#deliver(messages)) for (const message of messages) this.#homeless.push(message)
  }

  #checkOpen(): void {
    if (this.#disposed)
      throw new AckordError(
        'ACKORD_SHUTDOWN',
        'The source was disposed before the message was settled. It was accepted, so nobody sends it again.',
      )
  }
}
