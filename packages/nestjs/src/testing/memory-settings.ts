import { type Destination, MemoryBroker, silentLogger, systemRuntime } from '@ackord/core'
import { rejectUnknownOptions } from '@ackord/core/internal'
import { type IdempotencyStore, MemoryIdempotencyStore } from '@ackord/outbox'
import { Service } from '@ackord/outbox/service'
import { MemoryStore, type MemoryStoreTransaction } from '@ackord/testkit'
import type { InstanceSettings } from '../instance/instance-settings.ts'
import type { ConsumerParts } from '../instance/instance-store.ts'

export interface AckordTestingOptions {
  /** Holds the business data, the inbox and the outbox; `@InjectDatabase()` injects it. Default: a new one. */
  readonly store?: MemoryStore | undefined
  /** Consumers read the topics of their names, and events are published to it. Default: a new one. */
  readonly broker?: MemoryBroker | undefined
  /** Where events go. Default: `events`. */
  readonly destination?: Destination | undefined
  /** The CloudEvents source of events that have none. Default: `/test`. */
  readonly eventSource?: string | undefined
  /**
   * Whether `app.init()` starts consumers and relay, on the broker. Default: false; a test delivers messages one by one with `deliver()`, and events stay in the outbox,
   * where `assertPublished()` finds them.
   */
  readonly start?: boolean | undefined
}

/** An instance in memory: a consumer for each one that a handler names, and no server. */
export function memorySettings(options: AckordTestingOptions = {}): InstanceSettings {
  const { destination = 'events', eventSource = '/test', start = false, ...others } = options
  const { broker = new MemoryBroker({ logger: silentLogger }), ...rest } = others
  const { store = new MemoryStore({ source: eventSource, destination }), ...unknown } = rest
  rejectUnknownOptions('AckordTestingModule', unknown)
  const { outbox } = store
  const common = { destination, eventSource, logger: silentLogger }
  const createStore = () => ({
    outbox,
    transactional: (consumer: string) => store.transactional({ consumer, destination }),
  })
  return {
    store: {
      database: store,
      outbox,
      inbox: store.inbox,
      idempotency: idempotencyOf(store),
      publishing: new Service(createStore, { ...common, publisher: broker }),
      createConsumer: ({ name, options: consumer, handlers }: ConsumerParts) =>
        new Service(createStore, { ...common, ...consumer, consumer: name, handlers }),
      async check() {},
    },
    consumers: new Map(),
    anyConsumer: (name) => ({ source: broker.source(name) }),
    handleMessages: true,
    starts: start,
    eventSource,
    dashboard: undefined,
    onClose: undefined,
    logger: silentLogger,
    runtime: systemRuntime,
  }
}

/** The work of a request in a transaction of the store. */
function idempotencyOf(store: MemoryStore): IdempotencyStore<MemoryStoreTransaction> {
  const answers = new MemoryIdempotencyStore(store.outbox)
  return {
    claim: (key, options) => answers.claim(key, options),
    write: (key, token, work, options) => answers.write(key, token, () => store.write(work), options),
    release: (key, token) => answers.release(key, token),
  }
}
