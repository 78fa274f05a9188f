import type { AckordError, Runtime, Timer } from '@ackord/core'
import { KeyQueues, leaseLostError, sourceDisposedError } from '@ackord/core/broker'
import type { KafkaMessage } from '../port.ts'

/** An unsettled message of a partition. */
export interface HeldRecord {
  readonly native: KafkaMessage
  readonly window: PartitionWindow
  readonly offset: bigint
  readonly key: string | undefined
  /** How often it was handed out, in this process. */
  deliveries: number
  handling: boolean
  timer: Timer | undefined
}

/** Why messages of a partition cannot be settled any more. */
export type Loss = 'lost' | 'disposed'

export interface WindowOptions {
  readonly maxDelay: number
  readonly runtime: Runtime
  /** Called with a message whose turn has come. */
  readonly push: (record: HeldRecord) => void
  /** Called when the first message was added, and when a message was acked or nacked. */
  readonly changed: () => void
}

/**
 * The unsettled messages of a partition. One message per key is handed out at a time, the next one when it is acked, so that the order of a key holds across
 * nacks and readers. Messages without a key do not wait. The offset of the lowest unsettled message may be committed.
 */
export class PartitionWindow {
  readonly #options: WindowOptions
  // In the order of their offsets.
  readonly #unsettled = new Map<bigint, HeldRecord>()
  readonly #keys = new KeyQueues<HeldRecord>()
  #from: bigint | undefined
  #next = 0n
  #handling = 0
  #leaving = false
  #loss: Loss | undefined
  // The messages that wait for `resume()`; `undefined` if it is not suspended.
  #suspended: HeldRecord[] | undefined

  constructor(options: WindowOptions) {
    this.#options = options
  }

  get size(): number {
    return this.#unsettled.size
  }

  get handling(): number {
    return this.#handling
  }

  /** The offset to commit; `undefined` if no message was added. */
  get position(): bigint | undefined {
    if (this.#from === undefined) return undefined
    const [lowest] = this.#unsettled.keys()
    return lowest ?? this.#next
  }

  /** Whether the message precedes all messages that were added: then the partition is read from another offset, and the window is out of date. */
  isBehind(native: KafkaMessage): boolean {
    return this.#from !== undefined && BigInt(native.offset) < this.#from
  }

  /** Adds a message. After a rebalance messages are fetched again that the window has, or had; these are ignored. */
  add(native: KafkaMessage): void {
    const offset = BigInt(native.offset)
    if (this.#from !== undefined && offset < this.#next) return
    const begins = this.#from === undefined
    this.#from ??= offset
    this.#next = offset + 1n
    // One character per byte: different keys stay different.
    const key = native.key === null ? undefined : native.key.toString('latin1')
    const record: HeldRecord = { native, window: this, offset, key, deliveries: 0, handling: false, timer: undefined }
    this.#unsettled.set(offset, record)
    // A group without a committed offset starts again at each rebalance, with 'newest' behind all messages that came meanwhile.
    if (begins) this.#options.changed()
    if (key === undefined || this.#keys.add(key, record)) this.#options.push(record)
  }

  /** `false` if the message must not be handed out, or not now. */
  handOut(record: HeldRecord): boolean {
    if (this.#loss !== undefined || this.#leaving || this.#unsettled.get(record.offset) !== record) return false
    if (this.#suspended !== undefined) {
      this.#suspended.push(record)
      return false
    }
    record.handling = true
    record.deliveries += 1
    this.#handling += 1
    return true
  }

  /** Throws if the partition was assigned to another member, which gets the message again. */
  ack(record: HeldRecord): void {
    this.#release(record)
    this.#unsettled.delete(record.offset)
    const next = record.key === undefined ? undefined : this.#keys.next(record.key)
    if (next !== undefined) this.#options.push(next)
    this.#options.changed()
  }

  /** Kafka cannot redeliver a single message, so it is handed out again from here, after the delay. Later messages of its key wait behind it. Throws as `ack` does. */
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

  /** Hands out nothing until `resume()`. Messages being handled can be settled. Idempotent. */
  suspend(): void {
    this.#suspended ??= []
  }

  /** Idempotent. */
  resume(): void {
    const records = this.#suspended ?? []
    this.#suspended = undefined
    for (const record of records) this.#options.push(record)
  }

  /** Hands out nothing more. Messages being handled can be settled. */
  leave(): void {
    this.#leaving = true
    this.#cancelTimers()
  }

  /** Refuses verdicts from now on. */
  lose(loss: Loss): void {
    this.#loss ??= loss
    this.#handling = 0
    this.#cancelTimers()
  }

  #release(record: HeldRecord): void {
    if (this.#loss !== undefined) throw lossError(this.#loss, record.native)
    record.handling = false
    this.#handling -= 1
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
