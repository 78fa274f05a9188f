import { type Linked, LinkedList } from '../../async/collections.ts'
import { AckordError, type ErrorCode } from '../../errors.ts'
import type { NackOptions } from '../../message/acking.ts'
import type { Attributes } from '../../message/attributes.ts'
import type { RawMessage } from '../../message/message.ts'
import type { SharedPorts } from '../../ports/part-ports.ts'
import type { Delivery, Receiver } from '../receiver.ts'
import type { Source } from '../source.ts'
import type { GroupEntry, GroupReader, MemoryGroup } from './memory-group.ts'
import type { MemorySchedule, ScheduledTask } from './memory-schedule.ts'

/**
 * One reader of a group. It takes a message only for a waiting pull, so that an iteration that ends early has no
 * messages to return.
 */
export class MemorySource implements Source, GroupReader, PullSource, DeliveryHolder {
  readonly system: string = 'memory'
  readonly #group: MemoryGroup
  readonly #schedule: MemorySchedule
  /** The topic. */
  readonly origin: string
  readonly #receive: Receiver
  readonly #prefetch: number
  readonly #ackTimeout: number
  readonly #pulls = new Set<WaitingPull>()
  // The yielded messages that are not settled, in the order they were taken, which is also the order in which they expire.
  readonly #held = new LinkedList<MemoryDelivery>()
  #expiry: ScheduledTask | undefined
  #ended = false

  constructor(
    group: MemoryGroup,
    schedule: MemorySchedule,
    options: {
      readonly receive: Receiver
      readonly prefetch: number
      readonly ackTimeout: number
      readonly origin: string
    },
  ) {
    this.#group = group
    this.#schedule = schedule
    this.#receive = options.receive
    this.#prefetch = options.prefetch
    this.#ackTimeout = options.ackTimeout
    this.origin = options.origin
    group.readers.add(this)
  }

  get ended(): boolean {
    return this.#ended
  }

  get waiting(): number {
    return this.#pulls.size
  }

  messages(options: { readonly signal: AbortSignal }): AsyncIterableIterator<RawMessage> {
    return new MemoryIteration(this, options.signal)
  }

  inheritPorts(ports: SharedPorts): void {
    this.#receive.inheritPorts(ports)
  }

  /** Ends the iterations. The group redelivers the yielded but unsettled messages at once. Idempotent. */
  close(): Promise<void> {
    this.#end('disposed')
    return Promise.resolve()
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  /** The broker was closed. */
  closeWithBroker(): void {
    this.#end('closed')
  }

  take(): RawMessage | undefined {
    if (this.#held.size >= this.#prefetch) return undefined
    const entry = this.#group.take()
    return entry === undefined ? undefined : this.#deliver(entry)
  }

  wait(pull: WaitingPull): void {
    this.#pulls.add(pull)
    if (this.#held.size < this.#prefetch) this.#group.hungry.add(this)
  }

  accept(entry: GroupEntry): boolean {
    const value = this.#deliver(entry)
    for (const pull of this.#pulls) {
      this.#pulls.delete(pull)
      pull.resolve({ value, done: false })
      break
    }
    return this.#pulls.size > 0 && this.#held.size < this.#prefetch
  }

  leave(iteration: MemoryIteration): readonly WaitingPull[] {
    const left: WaitingPull[] = []
    for (const pull of this.#pulls) {
      if (pull.iteration === iteration && this.#pulls.delete(pull)) left.push(pull)
    }
    if (this.#pulls.size === 0) this.#group.hungry.delete(this)
    return left
  }

  finish(delivery: MemoryDelivery, verdict: 'acked' | 'rejected'): void {
    this.#letGo(delivery)
    this.#group.finish(delivery.entry, verdict)
    this.#group.serve()
  }

  retry(delivery: MemoryDelivery, delay: number): void {
    this.#letGo(delivery)
    this.#group.retry(delivery.entry, delay)
    this.#group.serve()
  }

  #deliver(entry: GroupEntry): RawMessage {
    const expires = this.#ackTimeout !== Infinity
    const deadline = expires ? this.#schedule.now() + this.#ackTimeout : Infinity
    const delivery = new MemoryDelivery(this, entry, deadline)
    this.#held.push(delivery)
    if (expires) this.#watch()
    return this.#receive(delivery)
  }

  #letGo(delivery: MemoryDelivery): void {
    this.#held.remove(delivery)
    if (this.#pulls.size > 0) this.#group.hungry.add(this)
  }

  // One task, for the oldest delivery. It is not rescheduled when that delivery settles: an early check costs less than a timer per message.
  #watch(): void {
    const oldest = this.#held.first
    if (this.#expiry !== undefined || oldest === undefined) return
    this.#expiry = this.#schedule.at(oldest.deadline, (reached) => {
      this.#expiry = undefined
      this.#lose('expired', reached)
      this.#watch()
    })
  }

  #lose(loss: Loss, reached: number): void {
    for (let held = this.#held.first; held !== undefined && held.deadline <= reached; held = this.#held.first) {
      held.lose(loss)
      this.#letGo(held)
      if (loss !== 'closed') this.#group.retry(held.entry, 0)
    }
    this.#group.serve()
  }

  #end(loss: Loss): void {
    if (this.#ended) return
    this.#ended = true
    for (const pull of this.#pulls) pull.iteration.end()
    if (this.#expiry !== undefined) this.#schedule.cancel(this.#expiry)
    this.#expiry = undefined
    this.#group.readers.delete(this)
    this.#lose(loss, Infinity)
  }
}

/** The source from which an iteration pulls. */
interface PullSource {
  readonly ended: boolean
  /** Returns a message if one is available immediately. */
  take(): RawMessage | undefined
  wait(pull: WaitingPull): void
  /** Removes and returns the waiting pulls of this iteration. */
  leave(iteration: MemoryIteration): readonly WaitingPull[]
}

/** A call to `next()` that waits for a message. */
interface WaitingPull {
  readonly iteration: MemoryIteration
  readonly resolve: (result: PullResult) => void
}

type PullResult = IteratorResult<RawMessage, undefined>

const done = { value: undefined, done: true } as const

/** Not a generator: a generator cannot be ended while it waits, and costs several microtasks per message. */
class MemoryIteration implements AsyncIterableIterator<RawMessage> {
  readonly #source: PullSource
  readonly #signal: AbortSignal
  #ended = false
  #listening = false

  constructor(source: PullSource, signal: AbortSignal) {
    this.#source = source
    this.#signal = signal
  }

  [Symbol.asyncIterator](): this {
    return this
  }

  next(): Promise<PullResult> {
    if (this.#signal.aborted || this.#source.ended) this.end()
    if (this.#ended) return Promise.resolve(done)
    const value = this.#source.take()
    if (value !== undefined) return Promise.resolve({ value, done: false })

    if (!this.#listening) {
      this.#listening = true
      this.#signal.addEventListener('abort', this.#onAbort, { once: true })
    }
    return new Promise((resolve) => this.#source.wait({ iteration: this, resolve }))
  }

  return(): Promise<PullResult> {
    this.end()
    return Promise.resolve(done)
  }

  /** Idempotent. */
  end(): void {
    this.#ended = true
    if (this.#listening) this.#signal.removeEventListener('abort', this.#onAbort)
    this.#listening = false
    for (const pull of this.#source.leave(this)) pull.resolve(done)
  }

  readonly #onAbort = (): void => this.end()
}

/** The owner of a message until it is settled. */
interface DeliveryHolder {
  readonly origin: string
  finish(delivery: MemoryDelivery, verdict: 'acked' | 'rejected'): void
  retry(delivery: MemoryDelivery, delay: number): void
}

/** The reasons for which a delivery ends without a verdict. */
type Loss = 'closed' | 'disposed' | 'expired'

/** One delivery of a message. A redelivery is a new object, so a late verdict on the old one has no effect. */
class MemoryDelivery implements Delivery, Linked<MemoryDelivery> {
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

  get origin(): string {
    return this.#holder.origin
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
