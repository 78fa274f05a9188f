import { publishAll, silentLogger } from '@ackord/core'
import type { Broker } from '../brokers/broker.ts'
import { waitFor } from '../lifecycle.ts'
import { CommandError, exitCode } from '../output/errors.ts'
import { errorText } from '../output/output.ts'
import { counted } from '../output/text.ts'
import type { Store } from '../stores/store.ts'
import { EventAudit } from './event-audit.ts'
import { Outage } from './failures.ts'
import { type DemoStore, demoStore, isRepeated, OrderService, orderCommand, orderId } from './order-service.ts'

/** The state of the store and the broker at the end. */
export interface DemoResult {
  readonly orders: number
  /** Orders in the store, counting each occurrence. */
  readonly applied: number
  /** Distinct events at the broker. */
  readonly events_published: number
  readonly duplicates_skipped: number
  /** Orders that are missing in the store, or have no event at the broker. */
  readonly lost: number
  readonly applied_twice: number
}

export interface DemoReport extends DemoResult {
  /** Events that the broker received again, with the same id. */
  readonly repeated_events: number
}

/** Progress while it runs. */
export interface DemoEvents {
  readonly onStep: (text: string) => void
  readonly onProgress: (progress: DemoProgress) => void
}

export interface DemoProgress {
  readonly handled: number
  readonly published: number
  readonly skipped: number
}

export interface DemoOptions extends DemoEvents {
  readonly orders: number
  readonly store: Store
  readonly broker: Broker
  /** Names of this run, for what it creates at the broker. */
  readonly topics: { readonly orders: string; readonly events: string }
  readonly signal: AbortSignal
  /** Called before everything is removed. */
  readonly beforeRemoval?: ((report: DemoReport) => Promise<void>) | undefined
}

/** If nothing happens for this long, something is broken. */
const stallTimeout = 60_000
/** How many orders are sent in one call, before some of them are sent again. */
const sendSize = 50
/** Once the outbox is empty, an event that was not lost arrives within this time after the previous one. */
const auditTimeout = 10_000

/**
 * A service that receives orders: every third is delivered twice, every tenth fails at first; then the service is killed in the middle of its work
 * and restarted, and then the broker is down for events. Everything it creates is removed in the end, also when it is aborted.
 */
export async function demo(options: DemoOptions): Promise<DemoReport> {
  const { broker, topics } = options
  const data = demoStore(options.store)
  try {
    await data.create()
    for (const topic of Object.values(topics)) await broker.createTopic(topic)
    options.signal.throwIfAborted()
    const report = await new DemoRun(options, data).run()
    await options.beforeRemoval?.(report)
    return report
  } finally {
    await removeAll(options, data)
  }
}

async function removeAll({ broker, topics, store }: DemoOptions, data: DemoStore): Promise<void> {
  const removals = [() => data.remove(), ...Object.values(topics).map((topic) => () => broker.removeTopic(topic))]
  const failures: unknown[] = []
  for (const remove of removals) await remove().catch((error: unknown) => failures.push(error))
  if (failures.length === 0) return
  const text = `The demo could not remove its data from ${store.address} and ${broker.address}: ${errorText(failures[0])}`
  throw new CommandError(text, {
    exitCode: exitCode.failed,
    hint: `Its names begin with ${topics.orders.replace(/-orders$/, '')}, in SQL with underscores instead of hyphens.`,
  })
}

class DemoRun {
  readonly #options: DemoOptions
  readonly #data: DemoStore
  readonly #publisher: Outage
  readonly #failed = new Set<string>()
  readonly #audit: EventAudit
  readonly #auditSource: ReturnType<Broker['source']>
  #service: OrderService
  #sent = 0
  #acked = 0
  #skipped = 0

  constructor(options: DemoOptions, data: DemoStore) {
    this.#options = options
    this.#data = data
    this.#publisher = new Outage(options.broker.publisher)
    this.#auditSource = options.broker.source(options.topics.events)
    this.#audit = new EventAudit(this.#auditSource)
    this.#service = this.#startService()
  }

  async run(): Promise<DemoReport> {
    try {
      await this.#phases()
      return await this.#report()
    } finally {
      await this.#service.stop()
      await this.#audit.stop()
      await this.#auditSource[Symbol.asyncDispose]()
    }
  }

  async #phases(): Promise<void> {
    const { orders, onStep } = this.#options
    const [third, twoThirds] = [Math.ceil(orders / 3), Math.ceil((2 * orders) / 3)]
    onStep(`${counted(orders, 'order arrives', 'orders arrive')}: every third is delivered twice, every tenth fails at first.`)
    await this.#send(0, third)
    await this.#handled()
    if (twoThirds > third) await this.#crash(third, twoThirds)
    if (orders > twoThirds) await this.#outage(twoThirds, orders)
    await this.#drained()
  }

  async #crash(from: number, to: number): Promise<void> {
    const { onStep } = this.#options
    onStep(
      'More orders arrive, and the service is killed in the middle: some orders are committed and not acked, some events are published and not settled.',
    )
    const { lifeline } = this.#service
    await this.#send(from, to)
    lifeline.arm()
    // With few orders, all may be handled before an event is published.
    await this.#until('the service to be killed', () => lifeline.isCut || this.#acked + lifeline.droppedAcks >= this.#sent)
    lifeline.cut()
    await this.#service.stop()
    onStep(
      `A new service starts on the same store. The broker redelivers messages that were not acked (${counted(lifeline.droppedAcks, 'message')}).`,
    )
    this.#service = this.#startService()
    await this.#handled()
  }

  async #outage(from: number, to: number): Promise<void> {
    const { onStep, orders } = this.#options
    await this.#drained()
    onStep('The broker is down for events; orders keep arriving and are committed.')
    this.#publisher.begin()
    await this.#send(from, to)
    await this.#handled()
    onStep(`The broker is up again, and ${counted(orders - this.#audit.distinct, 'event')} can leave the outbox.`)
    this.#publisher.end()
  }

  #startService(): OrderService {
    const { store, broker, topics } = this.#options
    return new OrderService({
      store,
      source: broker.source(topics.orders),
      publisher: this.#publisher,
      destination: topics.events,
      saveOrder: (id) => this.#data.saveOrder(id),
      failed: this.#failed,
      onAcked: () => {
        this.#acked += 1
      },
      onDuplicate: () => {
        this.#skipped += 1
      },
    })
  }

  async #send(from: number, to: number): Promise<void> {
    for (let start = from; start < to; start += sendSize) {
      const indexes = Array.from({ length: Math.min(sendSize, to - start) }, (_, offset) => start + offset)
      const { orders } = this.#options.topics
      await this.#publish(orders, indexes)
      await this.#publish(this.#options.broker.repeatTopic?.(orders) ?? orders, indexes.filter(isRepeated))
    }
  }

  async #publish(topic: string, indexes: readonly number[]): Promise<void> {
    const { broker, signal } = this.#options
    await publishAll(broker.publisher, topic, indexes.map(orderCommand), { signal })
    this.#sent += indexes.length
  }

  /** Waits until every message that was sent is acked at the broker. */
  async #handled(): Promise<void> {
    await this.#until('the orders to be handled', () => this.#acked >= this.#sent)
  }

  /** Waits until the outbox is empty: settled records are deleted from it. */
  async #drained(): Promise<void> {
    const outbox = this.#options.store.outbox({ logger: silentLogger })
    await this.#until('the events to be published', async () => {
      const { destinations } = await outbox.stats()
      return destinations.every(({ ready, waiting, leased, parked }) => ready + waiting + leased + parked === 0)
    })
  }

  async #report(): Promise<DemoReport> {
    const { orders: count, signal } = this.#options
    await this.#service.stop()
    // A lost event never arrives, so the wait is limited.
    await this.#watch(auditTimeout, () => this.#audit.orders.size >= count)
    signal.throwIfAborted()
    const stored = await this.#data.orders()
    const distinct = new Set(stored)
    const wanted = Array.from({ length: count }, (_, index) => orderId(index))
    return {
      orders: count,
      applied: stored.length,
      events_published: this.#audit.distinct,
      duplicates_skipped: this.#skipped,
      lost: wanted.filter((id) => !distinct.has(id) || !this.#audit.orders.has(id)).length,
      applied_twice: stored.length - distinct.size,
      repeated_events: this.#audit.total - this.#audit.distinct,
    }
  }

  async #until(what: string, isDone: () => boolean | Promise<boolean>): Promise<void> {
    if (await this.#watch(stallTimeout, isDone)) return
    const reason = this.#audit.failure ?? this.#service.lastError
    const text = `The demo waited for ${what}, and nothing happened for ${stallTimeout / 1000} s${reason === undefined ? '' : `: ${errorText(reason)}`}.`
    throw new CommandError(text, { exitCode: exitCode.failed, hint: '`ackord doctor` checks the store and the broker.', cause: reason })
  }

  async #watch(limit: number, isDone: () => boolean | Promise<boolean>): Promise<boolean> {
    const progress = () => {
      const now = { handled: this.#acked, published: this.#audit.distinct, skipped: this.#skipped }
      this.#options.onProgress(now)
      return JSON.stringify([now, this.#service.lifeline.droppedAcks])
    }
    return await waitFor(isDone, { signal: this.#options.signal, stallTimeout: limit, progress })
  }
}
