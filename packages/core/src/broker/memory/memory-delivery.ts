import { AckordError, type ErrorCode } from '../../errors.ts'
import type { NackOptions } from '../../message/acking.ts'
import type { Attributes } from '../../message/attributes.ts'
import type { Delivery } from '../receiver.ts'
import type { GroupEntry } from './memory-group.ts'
import type { Linked } from './memory-list.ts'

/** The owner of a message until it is settled. */
export interface DeliveryHolder {
  finish(delivery: MemoryDelivery, verdict: 'acked' | 'rejected'): void
  retry(delivery: MemoryDelivery, delay: number): void
}

/** The reasons for which a delivery ends without a verdict. */
export type Loss = 'closed' | 'disposed' | 'expired'

/** One delivery of a message. A redelivery is a new object, so a late verdict on the old one has no effect. */
export class MemoryDelivery implements Delivery, Linked<MemoryDelivery> {
  readonly entry: GroupEntry
  readonly deliveryCount: number
  /** When it expires; unused without an ackTimeout. */
  readonly deadline: number
  previous: MemoryDelivery | undefined
  next: MemoryDelivery | undefined
  readonly #holder: DeliveryHolder
  #loss: Loss | undefined

  constructor(holder: DeliveryHolder, entry: GroupEntry, deadline: number) {
    this.#holder = holder
    this.entry = entry
    this.deliveryCount = entry.deliveries
    this.deadline = deadline
  }

  get data(): Uint8Array {
    return this.entry.stored.data
  }

  get attributes(): Attributes {
    return this.entry.stored.attributes
  }

  ack(): void {
    this.#checkHeld()
    this.#holder.finish(this, 'acked')
  }

  nack(_error: unknown, options: NackOptions): void {
    this.#checkHeld()
    this.#holder.retry(this, options.retryAfter ?? 0)
  }

  terminate(): void {
    this.#checkHeld()
    this.#holder.finish(this, 'rejected')
  }

  /** From now on, a verdict throws. */
  lose(loss: Loss): void {
    this.#loss = loss
  }

  #checkHeld(): void {
    if (this.#loss === undefined) return
    const [code, text] = losses[this.#loss]
    throw new AckordError(code, text)
  }
}

const losses: Readonly<Record<Loss, readonly [ErrorCode, string]>> = {
  closed: ['ACKORD_SHUTDOWN', 'The memory broker was closed before the message was settled; the verdict has no effect.'],
  disposed: [
    'ACKORD_SHUTDOWN',
    'The source was disposed before the message was settled; it is delivered again, and the late verdict has no effect. Settle what was yielded before disposing the source.',
  ],
  expired: [
    'ACKORD_LEASE_LOST',
    'The message was not settled within the ackTimeout of its source; it is delivered again, and the late verdict has no effect.',
  ],
}
