import {
  commandHandler,
  defineEvent,
  deterministicIds,
  isAckordError,
  jsonMarshaler,
  MemoryBroker,
  marshal,
  type Publisher,
  publishAll,
  type RawMessage,
  Router,
  type Source,
  silentLogger,
} from '@ackord/core'
import { Relay } from '@ackord/outbox'
import { deferred } from '@ackord/testkit'
import { batchSize, consumer, eventsName } from './names.ts'
import { Outcome } from './outcome.ts'
import type { Store } from './stores/store.ts'

/** The source and publisher of the service, and the test's own access to the broker, which bypasses the fault. */
export interface Carrier {
  readonly source: Source
  readonly publisher: Publisher
  send(commands: readonly RawMessage[]): Promise<void>
  /** The ids of all events that the broker has received so far, including duplicates. */
  published(): Promise<readonly string[]> | readonly string[]
  /** The number of unsettled commands at the broker. */
  waiting(): Promise<number> | number
}

const placeOrder = defineEvent<{ readonly id: string }>('order.place')
const orderPlaced = defineEvent<{ readonly id: string }>('order.placed')

/** The id of a command's event, which is the same for every attempt. */
const eventOf = (id: string): string => deterministicIds(consumer, '/shop', id)('order.placed')

function orderCommand(id: string): RawMessage {
  return marshal(placeOrder({ id }, { id, source: '/shop' }), jsonMarshaler)
}

/** A whole service on a store and a broker, in this process: it must keep working after any fault. */
export class FaultRun implements AsyncDisposable {
  readonly outcome: Outcome
  /** The errors with which messages failed. */
  readonly errors: Error[] = []
  readonly #carrier: Carrier
  readonly #router: Router
  readonly #relay: Relay
  readonly #running: Promise<void>
  readonly #marks: { readonly at: number; readonly reached: () => void }[] = []
  #handled = 0

  constructor(store: Store, carrier: Carrier = memoryCarrier()) {
    this.#carrier = carrier
    this.outcome = new Outcome(eventOf, async () => {
      // Read before the events: a record settled by now is at the broker.
      const stored = await store.observe()
      return { ...stored, published: await carrier.published(), waiting: await carrier.waiting() }
    })
    this.#router = new Router({
      concurrency: 4,
      logger: silentLogger,
      redeliveryDelay: () => 20,
      onError: (error) => void this.errors.push(error),
    })
      .use(store.middleware)
      .handle(
        commandHandler({ type: placeOrder, source: '/orders' }, async ({ id }) => {
          await store.save(id)
          this.#handled += 1
          for (const { at, reached } of this.#marks) if (this.#handled >= at) reached()
          return [orderPlaced({ id })]
        }),
      )
    this.#relay = new Relay(store.outbox, {
      publisher: carrier.publisher,
      batchSize,
      lease: 2000,
      publishTimeout: 1500,
      pollInterval: 20,
      maxPollInterval: 50,
      backoff: () => 20,
      destinationBackoff: () => 20,
      maxAttempts: 1000,
      logger: silentLogger,
    })
    this.#relay.start()
    this.#running = this.#router.run(carrier.source)
    // The caller of stop() receives the error.
    this.#running.catch(() => {})
  }

  /** Sends `count` new commands, every tenth of them twice. */
  async send(count: number): Promise<void> {
    const fresh = this.outcome.expect(count)
    await this.#carrier.send([...fresh, ...fresh.filter((_, index) => index % 10 === 9)].map(orderCommand))
  }

  /** Resolves when handlers have run `count` times in total, including attempts that fail later. */
  async handled(count: number): Promise<void> {
    const mark = deferred()
    this.#marks.push({ at: this.#handled + count, reached: mark.resolve })
    await mark.promise
  }

  /** The number of messages that failed with this code. */
  failures(code: Parameters<typeof isAckordError>[1]): number {
    return this.errors.filter((error) => isAckordError(error, code)).length
  }

  get inHand(): number {
    return this.#router.health().inFlight
  }

  /** Checks after the fault: all commands and one more complete, the service stops, and nothing unexpected is left. Resolves to a note for the table. */
  async finish(faults: number, duplicatesPerFault: number = batchSize): Promise<string> {
    await this.outcome.untilDone()
    await this.send(1)
    await this.outcome.untilDone()
    await this.#stop()
    await this.outcome.check(faults * duplicatesPerFault)
    return await this.outcome.note()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#stop()
  }

  async #stop(): Promise<void> {
    await this.#router.stop()
    await this.#running
    await this.#relay.stop()
  }
}

/** An in-memory broker without a connection, so that only the store can fail. */
function memoryCarrier(): Carrier {
  const broker = new MemoryBroker({ logger: silentLogger })
  const published: string[] = []
  return {
    source: broker.source('commands'),
    publisher: {
      async publish(destination, messages) {
        if (destination !== eventsName) throw new Error(`Events go to '${eventsName}', not to '${destination}'.`)
        published.push(...messages.map(({ id }) => String(id)))
        return messages.map(() => ({ ok: true }))
      },
    },
    send: (commands) => publishAll(broker, 'commands', commands),
    published: () => [...published],
    waiting() {
      const { ready, delayed, inFlight } = broker.stats('commands')
      return ready + delayed + inFlight
    },
  }
}
