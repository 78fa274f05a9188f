import { AckordError, consoleLogger, InvalidOptionError, type Logger, type Metrics } from '@ackord/core'
import { checkCount, checkFunction, checkName, describeValue, guardLogger, markGuarded } from '@ackord/core/internal'
import { PublishTurns } from '../delivery/publish-turns.ts'
import { PublisherRoutes, type RelayGroupOptions, type RelayOptions, relayDefaults } from '../options/relay-options.ts'
import type { OutboxAdmin } from '../store/outbox-admin.ts'
import type { OutboxStore } from '../store/outbox-store.ts'
import type { DrainOptions, DrainResult } from './drain.ts'
import { Relay, type RelayHealth, shareTurns } from './relay.ts'

export interface RelayGroupHealth {
  /** `stopping` until the relays of all stores have stopped. */
  readonly state: RelayHealth['state']
  /** By the names of the stores. */
  readonly stores: Readonly<Record<string, RelayHealth>>
}

type RelayedStore = OutboxStore & Partial<OutboxAdmin>

/**
 * Relays for several stores in one process, with the same options and publishers. Each store has a relay of its own, so a store that is down or slow, or has a
 * long backlog, does not delay the others. They share two limits: `totalConcurrency` and `totalBytes`. Metrics have the name of the store as the label
 * `store`, and log lines have it as the field `store`.
 */
export class RelayGroup {
  readonly #relays: ReadonlyMap<string, Relay>

  /** `stores`: by the name that metrics, log lines, events and `health()` have for them. */
  constructor(stores: Readonly<Record<string, RelayedStore>>, options: RelayGroupOptions) {
    const entries = checkStores(stores)
    const {
      totalConcurrency = relayDefaults.totalConcurrency,
      totalBytes = relayDefaults.totalBytes,
      maxBatchBytes = relayDefaults.maxBatchBytes,
      concurrency = 1,
      logger = consoleLogger,
      metrics,
      onEvent,
      ...each
    } = options
    const turns = new PublishTurns(checkCount('totalConcurrency', totalConcurrency))
    checkCount('totalBytes', totalBytes)
    checkCount('maxBatchBytes', maxBatchBytes)
    checkCount('concurrency', concurrency)
    if (onEvent !== undefined) checkFunction('onEvent', onEvent)
    // Before the relays, which pass on the ports of their store: a publisher keeps those of its first user, and belongs to all stores.
    const ports = { logger: guardLogger(logger), metrics }
    for (const publisher of [...new PublisherRoutes(each.publisher).publishers, each.deadLetter?.publisher]) {
      publisher?.inheritPorts?.(ports)
    }
    const share = Math.max(1, Math.floor(totalBytes / (2 * concurrency * entries.length)))
    this.#relays = new Map(
      entries.map(([name, store]) => {
        const own: RelayOptions = {
          ...each,
          concurrency,
          maxBatchBytes: Math.min(maxBatchBytes, share),
          logger: withStore(ports.logger, name),
          metrics: metrics && labelled(metrics, name),
          onEvent: onEvent && ((event) => onEvent(event, name)),
        }
        const relay = new Relay(store, own)
        shareTurns(relay, turns.of(name))
        return [name, relay]
      }),
    )
  }

  /** Starts the relays of all stores. Has no effect on a running group. */
  start(): this {
    if (this.health().state === 'stopping') {
      throw new AckordError('ACKORD_ALREADY_STARTED', 'The relays are stopping. Await stop() before you start them again.')
    }
    for (const relay of this.#relays.values()) relay.start()
    return this
  }

  /** Drains all stores concurrently: see `Relay.drain()`. Each option applies to every store by itself. Resolves to the results by the names of the stores. */
  async drain(options: DrainOptions = {}): Promise<Readonly<Record<string, DrainResult>>> {
    const results = await Promise.all([...this.#relays].map(async ([name, relay]) => [name, await relay.drain(options)] as const))
    return Object.fromEntries(results)
  }

  /** Polls all stores immediately. */
  wake(): void {
    for (const relay of this.#relays.values()) relay.wake()
  }

  /** Stops the relays of all stores concurrently: see `Relay.stop()`. Idempotent in every state. Resolves when nothing is in flight. */
  async stop(): Promise<void> {
    await Promise.all([...this.#relays.values()].map((relay) => relay.stop()))
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop()
  }

  health(): RelayGroupHealth {
    const stores = Object.fromEntries([...this.#relays].map(([name, relay]) => [name, relay.health()]))
    const states = new Set(Object.values(stores).map(({ state }) => state))
    return { state: states.has('stopping') ? 'stopping' : states.has('running') ? 'running' : 'idle', stores }
  }
}

function checkStores(stores: Readonly<Record<string, RelayedStore>>): readonly (readonly [string, RelayedStore])[] {
  const entries = typeof stores === 'object' && stores !== null ? Object.entries(stores) : []
  if (entries.length === 0) {
    throw new InvalidOptionError('stores', `must be a map from names to stores, with at least one entry; it is ${describeValue(stores)}.`)
  }
  const names = new Map<RelayedStore, string>()
  for (const [name, store] of entries) {
    checkName('stores, the name of a store,', name)
    checkFunction(`stores['${name}'].claim`, store?.claim)
    const other = names.get(store)
    // With order per key, a store object is one member: the relays would take each other's records.
    if (other !== undefined) throw new InvalidOptionError('stores', `has the same store twice: as '${other}' and as '${name}'.`)
    names.set(store, name)
  }
  return entries
}

/** `logger` is guarded. */
function withStore(logger: Logger, store: string): Logger {
  return markGuarded({
    debug: (fields, text) => logger.debug({ store, ...fields }, text),
    info: (fields, text) => logger.info({ store, ...fields }, text),
    warn: (fields, text) => logger.warn({ store, ...fields }, text),
    error: (fields, text) => logger.error({ store, ...fields }, text),
  })
}

function labelled(metrics: Metrics, store: string): Metrics {
  return {
    count: (name, amount, labels) => metrics.count(name, amount, { ...labels, store }),
    observe: (name, value, labels) => metrics.observe(name, value, { ...labels, store }),
    gauge: (name, value, labels) => metrics.gauge(name, value, { ...labels, store }),
  }
}
