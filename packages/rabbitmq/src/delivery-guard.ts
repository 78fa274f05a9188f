import { AckordError } from '@ackord/core'
import type { CountHeader, RabbitmqMessage } from './client.ts'

/**
 * Stops looks at letters before their queue drops them: a quorum queue drops messages that were returned to it more often than its delivery limit, and each look returns its letters. A
 * letter shows its count only when it is fetched, which is one more delivery. So a queue that was refused is not looked at again while it has as many letters as then.
 */
export class DeliveryGuard {
  readonly #queue: string
  readonly #limit: number
  /** The number of deliveries from which on letters are refused. The others are left for consumers, and for processes that have not seen the letters yet. */
  readonly #half: number
  /** The number of letters when a look was refused, and how often the refused letter was delivered, that look included. */
  #refused: { readonly count: number; readonly deliveries: number } | undefined

  /** `limit`: Infinity for a queue without one. */
  constructor(queue: string, limit: number) {
    this.#queue = queue
    this.#limit = limit
    this.#half = Math.floor(limit / 2)
  }

  /** Throws if letters were refused, and are probably still there. `count`: the number of letters now. */
  checkQueue(count: number): void {
    if (this.#refused === undefined) return
    const { count: before, deliveries } = this.#refused
    // The last delivery is never used: there may be fewer letters only because another process is looking at some.
    if (count < before && deliveries < this.#limit - 1) this.#refused = undefined
    else if (count > 0) throw this.#refusal()
  }

  /** Throws if the letter was delivered too often. `count`: the number of letters at the start of the look. */
  checkLetter(letter: RabbitmqMessage, count: number): void {
    const deliveries = deliveriesBefore(letter, 'x-delivery-count')
    if (deliveries < this.#half) return
    this.#refused = { count, deliveries: deliveries + 1 }
    throw this.#refusal()
  }

  #refusal(): AckordError {
    const found = `Letters in '${this.#queue}' were delivered ${this.#half} times or more, and looking at them is another delivery`
    const reason = `RabbitMQ drops messages of a quorum queue at its delivery limit, by default 20 from version 4 on`
    const advice = `Remove the limit by a policy with "delivery-limit": -1, or empty the queue by a single replay. For both set \`deliveryLimit: 'none'\`, or --delivery-limit none of the command`
    return new AckordError('ACKORD_DELIVERY_LIMIT', `${found}: ${reason}. ${advice}.`)
  }
}

/** How often a quorum queue has delivered the message before. In a first delivery the header is the sender's; later the server overwrites it. */
export function deliveriesBefore({ fields, properties }: RabbitmqMessage, header: CountHeader): number {
  const count = fields.redelivered ? Number(properties.headers?.[header] ?? 0) : 0
  return Number.isNaN(count) ? 0 : count
}
