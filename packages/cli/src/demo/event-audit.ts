import type { RawMessage, Source } from '@ackord/core'

/** Reads and records the events that arrived at the broker. */
export class EventAudit {
  readonly #stopping = new AbortController()
  readonly #reading: Promise<void>
  readonly #ids = new Set<string>()
  readonly #orders = new Set<string>()
  #count = 0
  #failure: unknown

  constructor(source: Source) {
    this.#reading = this.#read(source).catch((error: unknown) => {
      this.#failure = error
    })
  }

  /** The number of distinct events, by message id. */
  get distinct(): number {
    return this.#ids.size
  }

  /** All events, including repeated ones. */
  get total(): number {
    return this.#count
  }

  /** The orders that have an event. */
  get orders(): ReadonlySet<string> {
    return this.#orders
  }

  /** Why it can no longer read. */
  get failure(): unknown {
    return this.#failure
  }

  async stop(): Promise<void> {
    this.#stopping.abort()
    await this.#reading
  }

  async #read(source: Source): Promise<void> {
    for await (const message of source.messages({ signal: this.#stopping.signal })) {
      this.#count += 1
      this.#ids.add(message.id ?? '')
      this.#orders.add(orderOf(message))
      await message.ack()
    }
  }
}

function orderOf({ data }: RawMessage): string {
  const { orderId } = JSON.parse(Buffer.from(data).toString()) as { readonly orderId: string }
  return orderId
}
