import type { AmqpContainer, AmqpDelivery } from '../client.ts'

/** The outcome of a message at the broker. */
export type Verdict =
  /** It is done. */
  | { readonly outcome: 'accepted' }
  /** It is delivered again, and this delivery does not count. */
  | { readonly outcome: 'released' }
  /** It is delivered again, and this delivery counts; with `deliverAt`, in milliseconds since the epoch, not before then. */
  | { readonly outcome: 'failed'; readonly deliverAt?: number | undefined }
  /** This consumer does not get it again. RabbitMQ dead-letters or drops it. */
  | { readonly outcome: 'undeliverable' }
  /** The broker dead-letters it, or drops it if it has no dead-letter queue. */
  | { readonly outcome: 'rejected' }

interface Waiting {
  readonly delivery: AmqpDelivery
  readonly verdict: Verdict
}

/**
 * Sends outcomes of deliveries, in their order. rhea writes the outcomes of a tick together, and may write those of two neighbours as one range with the outcome of the first:
 * the release of a message next to an accepted one would accept it, and the message would be lost. So only equal outcomes are sent in one tick.
 */
export class Dispositions {
  readonly #message: AmqpContainer['message']
  readonly #types: AmqpContainer['types']
  /** Whether deliveries are settled when their outcome is sent. Otherwise the broker answers, and they are settled then. */
  readonly #settled: boolean
  readonly #waiting: Waiting[] = []
  /** The verdict that was sent in this tick. */
  #sent: Verdict | undefined
  #isScheduled = false
  #whenIdle: (() => void)[] = []

  constructor({ message, types }: AmqpContainer, settled: boolean) {
    this.#message = message
    this.#types = types
    this.#settled = settled
  }

  send(delivery: AmqpDelivery, verdict: Verdict): void {
    if (this.#waiting.length === 0 && canFollow(this.#sent, verdict)) this.#write(delivery, verdict)
    else this.#waiting.push({ delivery, verdict })
    this.#schedule()
  }

  /** Resolves when rhea has written all outcomes. */
  async flush(): Promise<void> {
    if (!this.#isScheduled) return
    await new Promise<void>((resolve) => this.#whenIdle.push(resolve))
  }

  /** After rhea's own callback, which it has requested for this tick. */
  #schedule(): void {
    if (this.#isScheduled) return
    this.#isScheduled = true
    // biome-ignore lint/style/noRestrictedGlobals: rhea writes in a tick of its own, which ends before this one begins. Microtasks may run before it.
    process.nextTick(() => this.#next())
  }

  #next(): void {
    this.#isScheduled = false
    this.#sent = undefined
    for (let [next] = this.#waiting; next !== undefined && canFollow(this.#sent, next.verdict); [next] = this.#waiting) {
      this.#waiting.shift()
      this.#write(next.delivery, next.verdict)
    }
    if (this.#sent !== undefined) {
      this.#schedule()
      return
    }
    for (const resolve of this.#whenIdle.splice(0)) resolve()
  }

  #write(delivery: AmqpDelivery, verdict: Verdict): void {
    this.#sent = verdict
    delivery.update(this.#settled, this.#stateOf(verdict))
  }

  #stateOf(verdict: Verdict): unknown {
    const { accepted, released, rejected, modified } = this.#message
    switch (verdict.outcome) {
      case 'accepted':
        return accepted?.().described()
      case 'released':
        return released?.().described()
      case 'rejected':
        return rejected?.({}).described()
      case 'undeliverable':
        return modified?.({ delivery_failed: true, undeliverable_here: true }).described()
      case 'failed': {
        const { deliverAt } = verdict
        const annotations = deliverAt === undefined ? undefined : { 'x-opt-delivery-time': this.#types.wrap_timestamp(deliverAt) }
        const fields = { delivery_failed: true, undeliverable_here: false, ...(annotations && { message_annotations: annotations }) }
        return modified?.(fields).described()
      }
    }
  }
}

/** Whether both may be sent in one tick. */
function canFollow(sent: Verdict | undefined, verdict: Verdict): boolean {
  if (sent === undefined) return true
  return sent.outcome === verdict.outcome && !('deliverAt' in sent) && !('deliverAt' in verdict)
}
