import type { AckordError, Runtime, Timer } from '@ackord/core'
import { KeyQueues, leaseLostError, sourceDisposedError } from '@ackord/core/broker'
import type { KafkaMessage } from '../port.ts'

/** A message of a partition that is not settled. */
export interface HeldRecord {
  readonly native: KafkaMessage
  readonly window: PartitionWindow
  readonly offset: bigint
  readonly key: string | undefined
  /** How often it was yielded, in this process. */
  deliveries: number
  inHand: boolean
  timer: Timer | undefined
}

/** Why nothing of a partition can be settled any more. */
export type Loss = 'lost' | 'disposed'

export interface WindowOptions {
  readonly maxDelay: number
  readonly runtime: Runtime
  /** Hands out a message whose turn has come. */
  readonly push: (record: HeldRecord) => void
  /** The first message was taken, or one was settled or went out of hand. */
  readonly changed: () => void
}

/**
 * What was taken from a partition and is not settled. Of each key one message is handed out at a time, the next when that is acked: so a key's order holds through
 * nacks, whoever reads. Those without a key wait for nobody. What may be committed is the offset of the lowest that is not settled.
 */
export class PartitionWindow {
  readonly #options: WindowOptions
  // In the order of their offsets.
  readonly #unsettled = new Map<bigint, HeldRecord>()
  readonly #keys = new KeyQueues<HeldRecord>()
  #from: bigint | undefined
  #next = 0n
  #inHand = 0
  #leaving = false
  #loss: Loss | undefined
  // What was to be handed out meanwhile; `undefined` if nothing is held back.
  #heldBack: HeldRecord[] | undefined

  constructor(options: WindowOptions) {
    this.#options = options
  }

  get size(): number {
    return this.#unsettled.size
  }

  get inHand(): number {
    return this.#inHand
  }

  /** The offset to commit; `undefined` if nothing was taken. */
  get position(): bigint | undefined {
    if (this.#from === undefined) return undefined
    const [lowest] = this.#unsettled.keys()
    return lowest ?? this.#next
  }

  /** Whether the message lies before all that was taken: then the partition was read from elsewhere, and what is here is not what it was. */
  isBehind(native: KafkaMessage): boolean {
    return this.#from !== undefined && BigInt(native.offset) < this.#from
  }

  /** Takes a message. One that it has, or had, is fetched again after the group was divided anew, and passed over. */
  take(native: KafkaMessage): void {
    const offset = BigInt(native.offset)
    if (this.#from !== undefined && offset < this.#next) return
    const begins = this.#from === undefined
    this.#from ??= offset
    this.#next = offset + 1n
    // One character per byte: different keys stay different.
    const key = native.key === null ? undefined : native.key.toString('latin1')
    const record: HeldRecord = { native, window: this, offset, key, deliveries: 0, inHand: false, timer: undefined }
    this.#unsettled.set(offset, record)
    // A group that has committed nothing begins anew at each rebalance, with 'newest' behind all that came meanwhile.
    if (begins) this.#options.changed()
    if (key === undefined || this.#keys.add(key, record)) this.#options.push(record)
  }

  /** `false` if it is not to be handed out, or not now. */
  handOut(record: HeldRecord): boolean {
    if (this.#loss !== undefined || this.#leaving || this.#unsettled.get(record.offset) !== record) return false
    if (this.#heldBack !== undefined) {
      this.#heldBack.push(record)
      return false
    }
    record.inHand = true
    record.deliveries += 1
    this.#inHand += 1
    return true
  }

  /** Throws if the partition is another's by now: it delivers the message again. */
  ack(record: HeldRecord): void {
    this.#release(record)
    this.#unsettled.delete(record.offset)
    const next = record.key === undefined ? undefined : this.#keys.next(record.key)
    if (next !== undefined) this.#options.push(next)
    this.#options.changed()
  }

  /** Kafka cannot deliver one message again, so it is done from here, after the delay. Those of its key wait behind it. Throws as `ack` does. */
  nack(record: HeldRecord, delay: number): void {
    this.#release(record)
    const { runtime, maxDelay, push } = this.#options
    if (delay === 0) push(record)
    else if (!this.#leaving) {
      const again = () => {
        record.timer = undefined
        push(record)
      }
      record.timer = runtime.setTimeout(again, Math.min(delay, maxDelay), { keepAlive: false })
    }
    this.#options.changed()
  }

  /** Hands out nothing until `goOn()`. What is in hand can be settled. Idempotent. */
  holdBack(): void {
    this.#heldBack ??= []
  }

  /** Idempotent. */
  goOn(): void {
    const records = this.#heldBack ?? []
    this.#heldBack = undefined
    for (const record of records) this.#options.push(record)
  }

  /** Hands out nothing more. What is in hand can be settled. */
  leave(): void {
    this.#leaving = true
    this.#cancelTimers()
  }

  /** From now on verdicts are refused. */
  lose(loss: Loss): void {
    this.#loss ??= loss
    this.#inHand = 0
    this.#cancelTimers()
  }

  #release(record: HeldRecord): void {
    if (this.#loss !== undefined) throw lossError(this.#loss, record.native)
    record.inHand = false
    this.#inHand -= 1
  }

  #cancelTimers(): void {
    for (const record of this.#unsettled.values()) record.timer?.cancel()
  }
}

function lossError(loss: Loss, { topic, partition }: KafkaMessage): AckordError {
  if (loss === 'disposed') return sourceDisposedError('the message')
  const text = `Partition ${partition} of topic '${topic}' was assigned to another consumer, or the connection was lost, before the message was settled`
  return leaseLostError(text)
}
