import type { Attributes, PublishResult, RawMessage } from '@ackord/core'
import { RandomStream, type Trace } from '../plan/trace.ts'
import type { Ledger } from './ledger.ts'
import type { Scheduler } from './scheduler.ts'
import { eventOf } from './simulated-database.ts'

/** One message for one service. */
interface QueueEntry {
  readonly data: Uint8Array
  readonly attributes: Attributes
  readonly effect: string
  deliveries: number
  availableAt: number
  /** The process that it was delivered to, and the tag of the delivery. */
  held: { readonly tag: string; readonly process: string } | undefined
}

/** A delivery of a message to a process. */
export interface BrokerDelivery {
  readonly tag: string
  readonly data: Uint8Array
  readonly attributes: Attributes
  readonly deliveryCount: number
}

interface WaitingReceive {
  readonly service: string
  readonly process: string
  readonly answer: (delivery: BrokerDelivery | undefined) => void
}

export interface SimulatedBrokerOptions {
  readonly scheduler: Scheduler
  readonly ledger: Ledger
  readonly trace: Trace
  readonly seed: number
  readonly services: readonly string[]
}

/** Milliseconds after which an unacked message is redelivered. */
const ackTimeout = 10_000
const receiveTimeout = 5000

/** The broker's server side: at-least-once delivery without any order. */
export class SimulatedBroker {
  readonly #options: SimulatedBrokerOptions
  readonly #random: RandomStream
  readonly #queues: Map<string, Set<QueueEntry>>
  readonly #held = new Map<string, QueueEntry>()
  readonly #waiting = new Set<WaitingReceive>()
  #tags = 0
  #refusals = 0

  constructor(options: SimulatedBrokerOptions) {
    this.#options = options
    this.#random = new RandomStream(options.seed, 'broker')
    this.#queues = new Map(options.services.map((service) => [service, new Set<QueueEntry>()]))
  }

  /** The number of unacked messages. */
  get open(): number {
    return [...this.#queues.values()].reduce((sum, queue) => sum + queue.size, 0)
  }

  /** The messages that were delivered to a process and are not settled. */
  heldBy(process: string): string[] {
    return [...this.#held.values()].filter(({ held }) => held?.process === process).map(({ effect }) => effect)
  }

  /** Sends a command to every service. */
  send(data: Uint8Array, attributes: Attributes): void {
    for (const [service, queue] of this.#queues) {
      const effect = `${service} ${attributes.source} ${attributes.id}`
      const availableAt = this.#options.scheduler.now() + this.#random.between(0, 30)
      queue.add({ data, attributes, effect, deliveries: 0, availableAt, held: undefined })
      this.#serveAt(availableAt)
    }
  }

  /** Refuses every second message of the next publish. */
  refuseNext(): void {
    this.#refusals += 1
  }

  forgetRefusals(): void {
    this.#refusals = 0
  }

  /** Waits for a message, for a limited time. */
  receive(service: string, process: string): Promise<BrokerDelivery | undefined> {
    return new Promise((resolve) => {
      const timer = this.#options.scheduler.after(receiveTimeout, () => receive.answer(undefined))
      const receive: WaitingReceive = {
        service,
        process,
        answer: (delivery) => {
          timer.cancel()
          this.#waiting.delete(receive)
          resolve(delivery)
        },
      }
      this.#waiting.add(receive)
      this.#serve()
    })
  }

  ack(tag: string): void {
    const entry = this.#take(tag)
    this.#options.ledger.ack(entry.effect)
    for (const queue of this.#queues.values()) queue.delete(entry)
  }

  nack(tag: string, delay: number): void {
    const entry = this.#take(tag)
    this.#free(entry, delay)
  }

  /** Drops the connections of a process, or of all: its messages are redelivered, and its waiting receives end. */
  disconnect(process?: string): void {
    for (const waiting of [...this.#waiting]) if (process === undefined || waiting.process === process) waiting.answer(undefined)
    for (const [tag, entry] of [...this.#held]) {
      if (process !== undefined && entry.held?.process !== process) continue
      this.#held.delete(tag)
      this.#free(entry, 0)
    }
  }

  /** Publishes to the events' topic. */
  publish(messages: readonly RawMessage[]): PublishResult[] {
    const { ledger, trace } = this.#options
    const refusing = this.#refusals > 0
    if (refusing) this.#refusals -= 1
    return messages.map((message, index): PublishResult => {
      const { effect, index: position, behaviour } = eventOf(message.data)
      const what = `${effect} event ${position}`
      if (behaviour === 'unpublishable') return { ok: false, error: new Error('The schema refuses it.'), permanent: true }
      if (refusing && index % 2 === 0) return { ok: false, error: new Error('The queue is full.') }
      trace.add('broker', `has ${what}`)
      ledger.publish(message.id ?? '', what)
      return { ok: true }
    })
  }

  /** Stores a message in the dead letter of a service. */
  takeLetter(service: string, message: RawMessage): void {
    this.#options.ledger.letters.add(`${service} ${message.source} ${message.id}`)
  }

  #take(tag: string): QueueEntry {
    const entry = this.#held.get(tag)
    if (entry === undefined) throw new Error(`The broker does not wait for a verdict on ${tag} any more.`)
    this.#held.delete(tag)
    entry.held = undefined
    return entry
  }

  #free(entry: QueueEntry, delay: number): void {
    entry.held = undefined
    entry.availableAt = this.#options.scheduler.now() + delay
    this.#serveAt(entry.availableAt)
  }

  #serveAt(instant: number): void {
    const { scheduler } = this.#options
    scheduler.after(instant - scheduler.now(), () => this.#serve())
  }

  #serve(): void {
    const now = this.#options.scheduler.now()
    for (const waiting of [...this.#waiting]) {
      const ready = [...(this.#queues.get(waiting.service) ?? [])].filter(
        ({ held, availableAt }) => held === undefined && availableAt <= now,
      )
      // Occasionally a later message is delivered first.
      const entry = ready[this.#random.chance(0.2) ? this.#random.between(0, Math.min(2, ready.length - 1)) : 0]
      if (entry !== undefined) waiting.answer(this.#deliver(entry, waiting.process))
    }
  }

  #deliver(entry: QueueEntry, process: string): BrokerDelivery {
    const { scheduler, ledger } = this.#options
    this.#tags += 1
    const tag = `d${this.#tags}`
    entry.deliveries += 1
    entry.held = { tag, process }
    this.#held.set(tag, entry)
    ledger.tries(`delivery of ${entry.effect}`)
    scheduler.after(ackTimeout, () => {
      if (this.#held.delete(tag)) this.#free(entry, 0)
    })
    return { tag, data: entry.data, attributes: entry.attributes, deliveryCount: entry.deliveries }
  }
}
