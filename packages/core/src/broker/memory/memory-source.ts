import type { RawMessage } from '../../message/message.ts'
import type { Delivery } from '../receiver.ts'
import type { Source } from '../source.ts'
import { type DeliveryHolder, type Loss, MemoryDelivery } from './memory-delivery.ts'
import type { GroupEntry, GroupReader, MemoryGroup } from './memory-group.ts'
import { MemoryIteration, type PullSource, type WaitingPull } from './memory-iteration.ts'
import { LinkedList } from './memory-list.ts'
import type { MemorySchedule, ScheduledTask } from './memory-schedule.ts'

/**
 * One reader of a group. It takes a message only for a waiting pull, so that an iteration that ends early has no
 * messages to return.
 */
export class MemorySource implements Source, GroupReader, PullSource, DeliveryHolder {
  readonly #group: MemoryGroup
  readonly #schedule: MemorySchedule
  readonly #receive: (delivery: Delivery) => RawMessage
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
      readonly receive: (delivery: Delivery) => RawMessage
      readonly prefetch: number
      readonly ackTimeout: number
    },
  ) {
    this.#group = group
    this.#schedule = schedule
    this.#receive = options.receive
    this.#prefetch = options.prefetch
    this.#ackTimeout = options.ackTimeout
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
