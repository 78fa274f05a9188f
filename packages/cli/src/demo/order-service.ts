import { exponentialBackoff, Router, type Source, silentLogger } from '@ackord/core'
import { Relay } from '@ackord/outbox'
import type { Store } from '../stores/store.ts'
import { crashableOutbox } from './crashable-outbox.ts'
import { crashableSource } from './crashable-source.ts'
import { Lifeline } from './lifeline.ts'
import { placeOrderHandler } from './order-commands.ts'
import type { Outage } from './outage.ts'

export interface OrderServiceOptions {
  readonly store: Store
  /** Of this service alone; it is disposed of when the service ends. */
  readonly source: Source & AsyncDisposable
  readonly publisher: Outage
  readonly destination: string
  readonly saveOrder: (id: string) => Promise<void>
  /** The orders that have failed before: the same for the service that comes after this one. */
  readonly failed: Set<string>
  readonly onAcked: () => void
  readonly onDuplicate: () => void
}

/** Short, so that what a dead relay held need not be waited for long. */
const lease = 3000

/** A service as it would be in a process of its own: a router with inbox and outbox around its handler, and a relay. */
export class OrderService {
  readonly lifeline: Lifeline = new Lifeline()
  readonly #router: Router
  readonly #relay: Relay
  readonly #source: Source & AsyncDisposable
  readonly #running: Promise<void>
  #failure: unknown

  constructor(options: OrderServiceOptions) {
    const { store, source, publisher, destination, saveOrder, failed, onAcked, onDuplicate } = options
    this.#source = source
    this.#router = new Router({ concurrency: 8, shutdownTimeout: 2000, logger: silentLogger })
    this.#router.use(store.transactional({ consumer: 'order-service', destination, onDuplicate }))
    this.#router.handle(placeOrderHandler(saveOrder, failed))
    this.#relay = new Relay(crashableOutbox(store.outbox({ logger: silentLogger }), this.lifeline), {
      publisher,
      lease,
      publishTimeout: 2500,
      pollInterval: 50,
      maxPollInterval: 250,
      destinationBackoff: exponentialBackoff({ initial: 100, max: 500 }),
      shutdownTimeout: 2000,
      logger: silentLogger,
    }).start()
    this.#running = this.#router.run(crashableSource(source, this.lifeline, onAcked)).catch((error: unknown) => {
      this.#failure = error
    })
  }

  /** What it failed with last, if it did; it may have gone on all the same. */
  get lastError(): unknown {
    return this.#failure ?? this.#relay.health().lastStoreError
  }

  /** After a crash too: what is left of it in this process must end. Idempotent. */
  async stop(): Promise<void> {
    await this.#router.stop()
    await this.#running
    await this.#relay.stop()
    await this.#source[Symbol.asyncDispose]()
  }
}
