import {
  type Backoff,
  consoleLogger,
  type DeadLetter,
  exponentialBackoff,
  InvalidOptionError,
  type Logger,
  type Metrics,
  type Publisher,
  type Runtime,
  type SharedPorts,
  systemRuntime,
} from '@ackord/core'
import {
  checkCount,
  checkDuration,
  checkFunction,
  checkName,
  describeValue,
  guardLogger,
  guardMetrics,
  rejectUnknownOptions,
} from '@ackord/core/internal'
import type { OutboxAdmin } from '../store/outbox-admin.ts'
import type { OutboxStore } from '../store/outbox-store.ts'
import { checkOnExhausted, type OnExhausted } from './key-order.ts'
import type { MapRecord, RelayEvent } from './relay-events.ts'
import { type WatchedRuntime, watchSuspensions } from './watched-runtime.ts'

/** How the store is read; shared by `Relay` and `outboxSource`. */
export interface ClaimingOptions {
  /** Milliseconds between polls while there is little to do. Default: 500. */
  readonly pollInterval?: number | undefined
  /**
   * The upper limit of the poll interval, which doubles while there is nothing to do; also the longest delay with which a delayed record is found.
   * Default: 5,000, or 12,000 where the store reports every commit (`notifies`), or `pollInterval` if that is longer.
   */
  readonly maxPollInterval?: number | undefined
  /** The maximum number of records per claim. Default: 500. */
  readonly batchSize?: number | undefined
  /**
   * The maximum size of one claim in bytes: data and attributes of its records together. A single record that is larger is claimed alone. A relay
   * keeps at most twice as much in memory for each of its `concurrency` batches, because it claims the next batch while it settles one. Default: 16
   * MB (16,777,216).
   */
  readonly maxBatchBytes?: number | undefined
  /**
   * Milliseconds for which a claimed record belongs to this relay alone; renewed after a third of it. When a process dies, other relays claim its
   * records after this time. Default: 30,000.
   */
  readonly lease?: number | undefined
  /**
   * A record that fails at this attempt is parked. So is a record that was claimed this often and never settled, because it may be what crashes its
   * relays. Default: 10.
   */
  readonly maxAttempts?: number | undefined
  /** Milliseconds before a failed record is tried again, by its number of attempts. Default: exponential from 1 s to 1 min, ± 20 %. */
  readonly backoff?: Backoff | undefined
  /**
   * Only records for these destinations. With order `perKey` all readers of the store must have the same list: they share the keys, not the
   * destinations. Default: all.
   */
  readonly destinations?: readonly string[] | undefined
  readonly runtime?: Runtime | undefined
  /** Also for the store and the publishers that have none. Default: the console, from `info` up. */
  readonly logger?: Logger | undefined
  /** Also for a store that has none. Default: none. */
  readonly metrics?: Metrics | undefined
}

export interface RelayOptions extends ClaimingOptions {
  /**
   * Where records are published: one publisher for all, or a map by destination, with `'*'` for destinations that are not named. With a map without
   * `'*'` the relay only claims the named destinations, and leaves the rest to other relays. The relay does not close publishers.
   */
  readonly publisher: Publisher | PublisherMap
  /**
   * Changes the message or its destination name right before it is published. The store's destination still decides which publisher is used and which
   * destination is paused after a failure. `undefined` changes nothing. A record for which it throws is parked immediately. Default: nothing is
   * changed.
   */
  readonly map?: MapRecord | undefined
  /**
   * Receives a confirmed copy of a record before it is parked: its own bytes, id and attributes, and `deadletterreason`, `deadlettercode`,
   * `deadlettertime` and `deadletterdestination`. It is tried once, for at most `publishTimeout`; if it does not confirm the copy, the record is
   * parked nevertheless, and its error says so. Default: none.
   */
  readonly deadLetter?: DeadLetter | undefined
  /**
   * How the records behind a parked record are treated, on a store with order `perKey`. `park`: they are published without it. `block`: they wait
   * until it is re-armed or discarded. `parkKey`: they are parked too, including those that are committed later, until all are re-armed. Default:
   * `park`.
   */
  readonly onExhausted?: OnExhausted | undefined
  /**
   * The time limit of one `publish()` in milliseconds. After it the signal is aborted, and the relay continues without an answer. It must be shorter
   * than the lease, so that a publish ends while the relay still owns the record even if no renewal succeeds. Default: 10,000.
   */
  readonly publishTimeout?: number | undefined
  /** Milliseconds for which a destination is paused after a failure, by its number of consecutive failures. Default: exponential from 1 s to 1 min, ± 20 %. */
  readonly destinationBackoff?: Backoff | undefined
  /**
   * How many batches may be published and settled concurrently, whether claimed or received on the hot path; while one is settled the next is
   * claimed. It also limits the concurrent publishes per destination: a publish that takes longer than a tenth of a second leaves its batch and does
   * not delay other destinations. A higher number helps against a slow broker; the order of two batches is then undefined. Default: 1.
   */
  readonly concurrency?: number | undefined
  /**
   * Milliseconds that a stop waits for records in flight. After that publishes are aborted, the store gets two more seconds for outcomes and
   * releases, and the stop ends. 0 aborts immediately, `Infinity` never. Default: 25,000.
   */
  readonly shutdownTimeout?: number | undefined
  /** Deletes old published records, where the store keeps them; `true` uses all defaults. The store must be an `OutboxAdmin`. Default: nothing is deleted. */
  readonly cleanup?: RelayCleanupOptions | true | undefined
  /**
   * Milliseconds between two queries of the store's statistics, for `health()` and the metrics, if the store is an `OutboxAdmin`; longer where
   * counting is slow, so that it never takes more than a twentieth of the time. `false`: never. Default: 60,000.
   */
  readonly statsInterval?: number | false | undefined
  /** Called with each event. It must not block; an error that it throws is logged once and changes nothing. Optional. */
  readonly onEvent?: ((event: RelayEvent) => void) | undefined
}

/** The options of a `RelayGroup`. Except for the two totals, each option applies to every store by itself, and publishers are shared. */
export interface RelayGroupOptions extends Omit<RelayOptions, 'onEvent'> {
  /**
   * The maximum number of batches, of all stores together, that are published concurrently. Stores with records take turns, one batch each. A batch that is not
   * confirmed after a tenth of a second ends its turn. Default: 8.
   */
  readonly totalConcurrency?: number | undefined
  /**
   * The maximum number of bytes that the records of all stores use in memory. Each store has an equal part of it, so that none waits for another: a claim
   * has at most `totalBytes / (2 × concurrency × number of stores)` bytes, and never more than `maxBatchBytes`. A single record that is larger is claimed
   * alone. Default: 64 MB (67,108,864).
   */
  readonly totalBytes?: number | undefined
  /**
   * Finds the stores while the group runs, such as the databases of tenants: new ones get a relay without a restart, and those that are gone are released. Default: the stores that
   * were given, and those of `add()`.
   */
  readonly discover?: RelayDiscoveryOptions | undefined
  /** Called with each event and the name of its store. It must not block; an error that it throws is logged once per store and changes nothing. Optional. */
  readonly onEvent?: ((event: RelayEvent, store: string) => void) | undefined
}

/** How a `RelayGroup` finds its stores. Its `maxPollInterval` is 15,000 by default, because each open store is polled by itself. */
export interface RelayDiscoveryOptions {
  /** The names of all stores that there are now. If it throws or rejects, the group keeps its stores. */
  readonly names: (options: { readonly signal: AbortSignal }) => Iterable<string> | Promise<Iterable<string>>
  /**
   * Opens the store of a name. If it throws or rejects, it is called again after the interval, and then after longer and longer delays up to a minute. A small pool is enough: a
   * relay uses one connection per batch in flight, and one more for notifications.
   */
  readonly open: (name: string) => DiscoveredStore | Promise<DiscoveredStore>
  /** Milliseconds between two calls of `names`. Default: 10,000. */
  readonly interval?: number | undefined
  /**
   * The maximum number of open stores, without those that were given or added. If there are more, they take turns of at least `interval`, and records wait for the turn of their
   * store. Default: 200.
   */
  readonly maxOpen?: number | undefined
  /** Milliseconds that `names`, `open` and `close` may take. Default: 10,000. */
  readonly openTimeout?: number | undefined
}

export interface DiscoveredStore {
  readonly store: OutboxStore & Partial<OutboxAdmin>
  /** Called when its relay has stopped: closes the pool. Default: nothing is closed. */
  close?(): unknown
}

export interface ClaimingSettings {
  readonly pollInterval: number
  readonly maxPollInterval: number
  readonly batchSize: number
  readonly maxBatchBytes: number
  readonly lease: number
  readonly maxAttempts: number
  readonly backoff: Backoff
  readonly destinations: readonly string[] | undefined
  readonly runtime: WatchedRuntime
  readonly logger: Logger
  readonly metrics: Metrics | undefined
  /** The reader's ports, which the parts that it uses inherit. */
  readonly shared: SharedPorts
}

export interface RelaySettings extends ClaimingSettings {
  readonly routes: PublisherRoutes
  readonly map: MapRecord | undefined
  readonly deadLetter: DeadLetter | undefined
  readonly onExhausted: OnExhausted
  readonly publishTimeout: number
  readonly destinationBackoff: Backoff
  readonly concurrency: number
  readonly shutdownTimeout: number
  readonly cleanup: CleanupSettings | undefined
  readonly statsInterval: number | false
  readonly onEvent: ((event: RelayEvent) => void) | undefined
}

const suspended =
  'This process was suspended, or its event loop blocked, or its clock set forward. Leases may have expired: the relay checks its claims with the store and continues.'

export interface RelayCleanupOptions {
  /** Milliseconds for which published records are kept, by the store's clock. Default: 24 hours. */
  readonly keepPublished?: number | undefined
  /** Milliseconds between two cleanup rounds, ± 10 %. Default: 1 minute. */
  readonly interval?: number | undefined
  /** How many records are deleted per statement; a round runs up to 100 of them. Default: 1,000. */
  readonly batchSize?: number | undefined
}

export interface CleanupSettings {
  readonly keepPublished: number
  readonly interval: number
  readonly batchSize: number
}

/** Applies the defaults and rejects invalid options. */
export function claimingSettings(options: ClaimingOptions, store: OutboxStore): ClaimingSettings {
  const maxInterval = store.capabilities?.notifies === true ? relayDefaults.notifiedPollInterval : relayDefaults.maxPollInterval
  const {
    pollInterval = relayDefaults.pollInterval,
    maxPollInterval = Math.max(maxInterval, pollInterval),
    batchSize = relayDefaults.batchSize,
    maxBatchBytes = relayDefaults.maxBatchBytes,
    lease = relayDefaults.lease,
    maxAttempts = relayDefaults.maxAttempts,
    backoff = exponentialBackoff(relayDefaults.backoff),
    destinations,
    runtime = systemRuntime,
    logger,
    metrics: givenMetrics,
    ...unknown
  } = options
  rejectUnknownOptions('A reader of an outbox', unknown)
  checkDuration('pollInterval', pollInterval, { min: 1 })
  checkDuration('maxPollInterval', maxPollInterval, { min: 1 })
  if (maxPollInterval < pollInterval) {
    throw new InvalidOptionError('maxPollInterval', `must not be shorter than pollInterval (${pollInterval}); it is ${maxPollInterval}.`)
  }
  if (destinations !== undefined) checkDestinations(destinations)
  const guarded = guardLogger(logger ?? consoleLogger)
  const metrics = givenMetrics === undefined ? undefined : guardMetrics(givenMetrics)
  const shared = { logger: logger === undefined ? undefined : guarded, metrics }
  return {
    pollInterval,
    maxPollInterval,
    batchSize: checkCount('batchSize', batchSize),
    maxBatchBytes: checkCount('maxBatchBytes', maxBatchBytes),
    lease: checkDuration('lease', lease, { min: 1 }),
    maxAttempts: checkCount('maxAttempts', maxAttempts, { infinite: true }),
    backoff: checkFunction('backoff', backoff),
    destinations,
    runtime: watchSuspensions(runtime, (suspendedFor) => guarded.warn({ suspendedFor }, suspended)),
    logger: guarded,
    metrics,
    shared,
  }
}

export function relaySettings(options: RelayOptions, store: OutboxStore): RelaySettings {
  const {
    publisher,
    map,
    deadLetter,
    onExhausted = 'park',
    publishTimeout = relayDefaults.publishTimeout,
    concurrency = 1,
    destinationBackoff = exponentialBackoff(relayDefaults.backoff),
    shutdownTimeout = relayDefaults.shutdownTimeout,
    cleanup,
    statsInterval = relayDefaults.statsInterval,
    onEvent,
    ...claiming
  } = options
  const routes = new PublisherRoutes(publisher)
  const settings = claimingSettings(claiming, store)
  if (map !== undefined) checkFunction('map', map)
  if (deadLetter !== undefined) checkDeadLetter(deadLetter)
  if (statsInterval !== false) checkDuration('statsInterval', statsInterval, { min: 1 })
  if (onEvent !== undefined) checkFunction('onEvent', onEvent)
  checkDuration('publishTimeout', publishTimeout, { min: 1 })
  if (publishTimeout >= settings.lease) {
    const text = `must be longer than publishTimeout (${publishTimeout}), or a publish may outlive it; it is ${settings.lease}.`
    throw new InvalidOptionError('lease', text)
  }
  return {
    ...settings,
    destinations: servedDestinations(settings.destinations, routes),
    routes,
    map,
    deadLetter,
    onExhausted: checkOnExhausted(onExhausted),
    publishTimeout,
    destinationBackoff: checkFunction('destinationBackoff', destinationBackoff),
    concurrency: checkCount('concurrency', concurrency),
    shutdownTimeout: checkDuration('shutdownTimeout', shutdownTimeout, { infinite: true }),
    cleanup: cleanup === undefined ? undefined : cleanupSettings(cleanup),
    statsInterval,
    onEvent,
  }
}

/** The destinations to claim: a relay claims nothing that it has no publisher for. */
function servedDestinations(asked: readonly string[] | undefined, routes: PublisherRoutes): readonly string[] | undefined {
  const unserved = asked?.filter((destination) => routes.publisherOf(destination) === undefined) ?? []
  if (unserved.length > 0) {
    const text = `names '${unserved.join("', '")}', for which the publisher map has no entry. Add it, or '*' for the rest.`
    throw new InvalidOptionError('destinations', text)
  }
  return asked ?? routes.destinations
}

function checkDeadLetter(deadLetter: DeadLetter): void {
  const { publisher, destination, ...unknown } = deadLetter
  rejectUnknownOptions('deadLetter', unknown)
  checkFunction('deadLetter.publisher.publish', publisher?.publish)
  checkName('deadLetter.destination', destination)
}

function checkDestinations(destinations: readonly string[]): void {
  if (!Array.isArray(destinations) || destinations.length === 0) {
    throw new InvalidOptionError('destinations', 'must be a non-empty list of names; omit it for all destinations.')
  }
  for (const [index, name] of destinations.entries()) checkName(`destinations[${index}]`, name)
}

/** The relay's defaults, in one place. Durations are milliseconds. */
export const relayDefaults = {
  /** Between polls that find nothing: it doubles from `pollInterval` to `maxPollInterval`. */
  pollInterval: 500,
  maxPollInterval: 5000,
  /** The `maxPollInterval` where the store reports every commit. */
  notifiedPollInterval: 12_000,
  batchSize: 500,
  maxBatchBytes: 16_777_216,
  lease: 30_000,
  maxAttempts: 10,
  backoff: { initial: 1000, factor: 2, max: 60_000, jitter: 0.2 },
  publishTimeout: 10_000,
  /** The router's default too: shorter than the 30 seconds that orchestrators wait before they kill. */
  shutdownTimeout: 25_000,
  statsInterval: 60_000,
  cleanup: { keepPublished: 86_400_000, interval: 60_000, batchSize: 1000 },
  /** Of a `RelayGroup`. */
  totalConcurrency: 8,
  totalBytes: 67_108_864,
  /** Of a `RelayGroup` that finds its stores. */
  discovery: { interval: 10_000, maxOpen: 200, openTimeout: 10_000, maxPollInterval: 15_000 },
} as const

/** A publisher for each destination, by its name in the store. `'*'` serves all that are not named. */
export type PublisherMap = Readonly<Record<string, Publisher>>

const anyOther = '*'

/** Which publisher serves which destination. */
export class PublisherRoutes {
  readonly #named = new Map<string, Publisher>()
  readonly #rest: Publisher | undefined

  constructor(publisher: Publisher | PublisherMap) {
    if (isPublisher(publisher)) {
      this.#rest = publisher
      return
    }
    const entries = typeof publisher === 'object' && publisher !== null ? Object.entries(publisher) : []
    if (entries.length === 0) {
      const expected = 'must have a publish method, or be a map from destinations to publishers, with at least one entry'
      throw new InvalidOptionError('publisher', `${expected}; it is ${describeValue(publisher)}.`)
    }
    for (const [destination, one] of entries) {
      checkName('publisher, the name of a destination,', destination)
      checkFunction(`publisher['${destination}'].publish`, one?.publish)
      if (destination === anyOther) this.#rest = one
      else this.#named.set(destination, one)
    }
  }

  /** All destinations that can be served; `undefined` means any. */
  get destinations(): readonly string[] | undefined {
    return this.#rest === undefined ? [...this.#named.keys()] : undefined
  }

  get publishers(): readonly (Publisher | undefined)[] {
    return [...this.#named.values(), this.#rest]
  }

  publisherOf(destination: string): Publisher | undefined {
    return this.#named.get(destination) ?? this.#rest
  }
}

function isPublisher(publisher: Publisher | PublisherMap): publisher is Publisher {
  return typeof publisher?.publish === 'function'
}

function cleanupSettings(cleanup: RelayCleanupOptions | true): CleanupSettings {
  if (cleanup !== true && (typeof cleanup !== 'object' || cleanup === null)) {
    throw new InvalidOptionError('cleanup', `must be true or an object of options; it is ${describeValue(cleanup)}.`)
  }
  const defaults = relayDefaults.cleanup
  const {
    keepPublished = defaults.keepPublished,
    interval = defaults.interval,
    batchSize = defaults.batchSize,
    ...unknown
  } = cleanup === true ? {} : cleanup
  rejectUnknownOptions('cleanup', unknown)
  return {
    keepPublished: checkDuration('cleanup.keepPublished', keepPublished),
    interval: checkDuration('cleanup.interval', interval, { min: 1 }),
    batchSize: checkCount('cleanup.batchSize', batchSize),
  }
}
