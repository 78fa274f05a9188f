import { AckordError, consoleLogger, InvalidOptionError, type Logger, type Metrics, outside, systemRuntime } from '@ackord/core'
import { checkCount, checkFunction, checkName, describeValue, guardLogger, markGuarded } from '@ackord/core/internal'
import { PublishTurns } from '../delivery/publish-turns.ts'
import { MemoryOutboxStore } from '../memory/memory-outbox-store.ts'
import { PublisherRoutes, type RelayGroupOptions, relayDefaults, relaySettings } from '../options/relay-options.ts'
import type { OutboxAdmin } from '../store/outbox-admin.ts'
import type { OutboxStore } from '../store/outbox-store.ts'
import type { DrainOptions, DrainResult } from './drain.ts'
import { Relay, type RelayHealth, shareLimits } from './relay.ts'
import { StoreDiscovery } from './store-discovery.ts'

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
  readonly #relays = new Map<string, Relay>()
  readonly #stores = new Map<RelayedStore, string>()
  /** Names whose relays are being stopped, to be removed. */
  readonly #removing = new Map<string, Promise<void>>()
  readonly #create: (name: string, store: RelayedStore) => Relay
  readonly #discovery: StoreDiscovery | undefined
  #discovering: { readonly stopping: AbortController; readonly ended: Promise<void> } | undefined
  #isRunning = false
  #stopping: Promise<void> | undefined

  /** `stores`: by the name that metrics, log lines, events and `health()` have for them. It may be empty if `discover` finds them. */
  constructor(stores: Readonly<Record<string, RelayedStore>>, options: RelayGroupOptions) {
    const {
      totalConcurrency = relayDefaults.totalConcurrency,
      totalBytes = relayDefaults.totalBytes,
      concurrency = 1,
      logger = consoleLogger,
      metrics,
      onEvent,
      discover,
      ...given
    } = options
    const entries = checkStores(stores, { mayBeEmpty: discover !== undefined })
    const each = discover === undefined ? given : { ...given, maxPollInterval: given.maxPollInterval ?? discoveredInterval(given) }
    const turns = new PublishTurns(checkCount('totalConcurrency', totalConcurrency))
    checkCount('totalBytes', totalBytes)
    checkCount('concurrency', concurrency)
    if (onEvent !== undefined) checkFunction('onEvent', onEvent)
    // Before the relays, which pass on the ports of their store: a publisher keeps those of its first user, and belongs to all stores.
    const ports = { logger: guardLogger(logger), metrics }
    for (const publisher of [...new PublisherRoutes(each.publisher).publishers, each.deadLetter?.publisher]) {
      publisher?.inheritPorts?.(ports)
    }
    const share = () => Math.max(1, Math.floor(totalBytes / (2 * concurrency * Math.max(1, this.#relays.size))))
    this.#create = (name, store) => {
      const relay = new Relay(store, {
        ...each,
        concurrency,
        logger: withStore(ports.logger, name),
        metrics: metrics && labelled(metrics, name),
        onEvent: onEvent && ((event) => onEvent(event, name)),
      })
      shareLimits(relay, { takeTurn: turns.of(name), maxBatchBytes: share })
      return relay
    }
    for (const [name, store] of entries) this.add(name, store)
    if (discover === undefined) return
    // Otherwise options that are invalid for every relay would be found with the first store.
    relaySettings({ ...each, concurrency, logger, metrics }, new MemoryOutboxStore())
    const group = {
      add: (name: string, store: RelayedStore) => this.add(name, store),
      remove: (name: string) => this.remove(name),
      has: (name: string) => this.#relays.has(name),
    }
    this.#discovery = new StoreDiscovery(discover, { group, runtime: each.runtime ?? systemRuntime, logger: ports.logger })
  }

  /** Adds a store. Its relay starts immediately if the group runs. The part of `totalBytes` that the others have becomes smaller with their next claim. */
  add(name: string, store: RelayedStore): void {
    checkName('stores, the name of a store,', name)
    checkFunction(`stores['${name}'].claim`, store?.claim)
    if (this.#relays.has(name)) throw new InvalidOptionError('stores', `has a store '${name}' already.`)
    const other = this.#stores.get(store)
    // With order per key, a store object is one member: the relays would take each other's records.
    if (other !== undefined) throw new InvalidOptionError('stores', `has the same store twice: as '${other}' and as '${name}'.`)
    const relay = this.#create(name, store)
    this.#relays.set(name, relay)
    this.#stores.set(store, name)
    if (this.#isRunning && this.#stopping === undefined) relay.start()
  }

  /**
   * Stops the relay of a store, as `Relay.stop()` does, and removes it; the store is not closed. Resolves to whether there was such a store, when nothing of it is in flight. A
   * store that `discover` finds again is added again.
   */
  async remove(name: string): Promise<boolean> {
    const relay = this.#relays.get(name)
    if (relay === undefined) return false
    let removing = this.#removing.get(name)
    if (removing === undefined) {
      removing = this.#stopAndRemove(name, relay)
      this.#removing.set(name, removing)
    }
    await removing
    return true
  }

  /** Starts the relays of all stores. Has no effect on a running group. */
  start(): this {
    if (this.#stopping !== undefined) {
      throw new AckordError('ACKORD_ALREADY_STARTED', 'The relays are stopping. Await stop() before you start them again.')
    }
    if (this.#isRunning) return this
    for (const [name, relay] of this.#relays) if (!this.#removing.has(name)) relay.start()
    this.#isRunning = true
    const discovery = this.#discovery
    if (discovery !== undefined) {
      const stopping = new AbortController()
      this.#discovering = { stopping, ended: outside(() => discovery.run(stopping.signal)) }
    }
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

  /**
   * Stops the relays of all stores concurrently: see `Relay.stop()`. Stores that were discovered are closed and removed. Idempotent in every state. Resolves when nothing is in
   * flight.
   */
  async stop(): Promise<void> {
    if (!this.#isRunning) {
      // They may be draining.
      await Promise.all([...this.#relays.values()].map((relay) => relay.stop()))
      return
    }
    this.#stopping ??= this.#stop()
    await this.#stopping
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop()
  }

  health(): RelayGroupHealth {
    const stores = Object.fromEntries([...this.#relays].map(([name, relay]) => [name, relay.health()]))
    if (this.#isRunning) return { state: this.#stopping === undefined ? 'running' : 'stopping', stores }
    const states = new Set(Object.values(stores).map(({ state }) => state))
    return { state: states.has('stopping') ? 'stopping' : states.has('running') ? 'running' : 'idle', stores }
  }

  async #stop(): Promise<void> {
    this.#discovering?.stopping.abort()
    await Promise.all([this.#discovering?.ended, ...[...this.#relays.values()].map((relay) => relay.stop())])
    this.#discovering = undefined
    this.#isRunning = false
    this.#stopping = undefined
  }

  async #stopAndRemove(name: string, relay: Relay): Promise<void> {
    await relay.stop()
    this.#relays.delete(name)
    for (const [store, its] of this.#stores) if (its === name) this.#stores.delete(store)
    this.#removing.delete(name)
  }
}

/** Each of many stores is polled by itself, so an idle one is polled less often. */
function discoveredInterval({ pollInterval = relayDefaults.pollInterval }: Pick<RelayGroupOptions, 'pollInterval'>): number {
  return Math.max(relayDefaults.discovery.maxPollInterval, pollInterval)
}

function checkStores(
  stores: Readonly<Record<string, RelayedStore>>,
  { mayBeEmpty }: { readonly mayBeEmpty: boolean },
): readonly (readonly [string, RelayedStore])[] {
  const isMap = typeof stores === 'object' && stores !== null
  const entries = isMap ? Object.entries(stores) : []
  if (entries.length === 0 && !(isMap && mayBeEmpty)) {
    throw new InvalidOptionError('stores', `must be a map from names to stores, with at least one entry; it is ${describeValue(stores)}.`)
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
