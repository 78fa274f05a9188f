import {
  type Backoff,
  consoleLogger,
  exponentialBackoff,
  InvalidOptionError,
  type Logger,
  type Metrics,
  type Publisher,
  type Runtime,
  systemRuntime,
} from '@ackord/core'
import { checkCount, checkDuration, checkFunction, checkName, checkNoMore, guardLogger, guardMetrics } from '@ackord/core/internal'
import { relayDefaults } from './defaults.ts'

/** How the store is read; the same for `Relay` and `outboxSource`. */
export interface ClaimingOptions {
  /** Milliseconds between polls while there is little to do. Default: 500. */
  readonly pollInterval?: number | undefined
  /** What the interval doubles up to while there is nothing to do. Default: 5,000, or `pollInterval` if that is longer. */
  readonly maxPollInterval?: number | undefined
  /** How many records one claim takes. Default: 500. */
  readonly batchSize?: number | undefined
  /**
   * Milliseconds for which a claimed record is nobody else's; renewed at a third of it. When a process dies, what it held waits this long.
   * Default: 30,000.
   */
  readonly lease?: number | undefined
  /** A record that fails at this attempt is parked. So is one that was claimed this often and never settled, because it may be what kills its relays. Default: 10. */
  readonly maxAttempts?: number | undefined
  /** Milliseconds before a failed record is tried again, by its attempts. Default: exponential from 1 s to 1 min, ± 20 %. */
  readonly backoff?: Backoff | undefined
  /** Only records for these. Default: all. */
  readonly destinations?: readonly string[] | undefined
  readonly runtime?: Runtime | undefined
  /** Default: the console, from `info` up. */
  readonly logger?: Logger | undefined
  readonly metrics?: Metrics | undefined
}

export interface RelayOptions extends ClaimingOptions {
  /** Where the records go. The relay does not close it. */
  readonly publisher: Publisher
  /** Milliseconds that one `publish()` may take. Its signal is aborted then, and the relay goes on without it. Default: 10,000. */
  readonly publishTimeout?: number | undefined
  /**
   * Milliseconds for which a destination is left alone after it failed, by its failures in a row. Default: exponential from 1 s to 1 min, ± 20 %.
   */
  readonly destinationBackoff?: Backoff | undefined
  /** How many claimed batches may be on their way at once. More helps against a slow broker; the order of two batches is then anybody's guess. Default: 1. */
  readonly concurrency?: number | undefined
}

export interface ClaimingSettings {
  readonly pollInterval: number
  readonly maxPollInterval: number
  readonly batchSize: number
  readonly lease: number
  readonly maxAttempts: number
  readonly backoff: Backoff
  readonly destinations: readonly string[] | undefined
  readonly runtime: Runtime
  readonly logger: Logger
  readonly metrics: Metrics | undefined
}

export interface RelaySettings extends ClaimingSettings {
  readonly publisher: Publisher
  readonly publishTimeout: number
  readonly destinationBackoff: Backoff
  readonly concurrency: number
}

/** Fills in the defaults and refuses what cannot work. */
export function claimingSettings(options: ClaimingOptions): ClaimingSettings {
  const {
    pollInterval = relayDefaults.pollInterval,
    maxPollInterval = Math.max(relayDefaults.maxPollInterval, pollInterval),
    batchSize = relayDefaults.batchSize,
    lease = relayDefaults.lease,
    maxAttempts = relayDefaults.maxAttempts,
    backoff = exponentialBackoff(relayDefaults.backoff),
    destinations,
    runtime = systemRuntime,
    logger = consoleLogger,
    metrics,
    ...unknown
  } = options
  checkNoMore('A reader of an outbox', unknown)
  checkDuration('pollInterval', pollInterval, { min: 1 })
  checkDuration('maxPollInterval', maxPollInterval, { min: 1 })
  if (maxPollInterval < pollInterval) {
    throw new InvalidOptionError('maxPollInterval', `must not be shorter than pollInterval (${pollInterval}); it is ${maxPollInterval}.`)
  }
  if (destinations !== undefined) checkDestinations(destinations)
  return {
    pollInterval,
    maxPollInterval,
    batchSize: checkCount('batchSize', batchSize),
    lease: checkDuration('lease', lease, { min: 1 }),
    maxAttempts: checkCount('maxAttempts', maxAttempts, { infinite: true }),
    backoff: checkFunction('backoff', backoff),
    destinations,
    runtime,
    logger: guardLogger(logger),
    metrics: metrics === undefined ? undefined : guardMetrics(metrics),
  }
}

export function relaySettings(options: RelayOptions): RelaySettings {
  const {
    publisher,
    publishTimeout = relayDefaults.publishTimeout,
    concurrency = 1,
    destinationBackoff = exponentialBackoff(relayDefaults.backoff),
    ...claiming
  } = options
  checkFunction('publisher.publish', publisher?.publish)
  return {
    ...claimingSettings(claiming),
    publisher,
    publishTimeout: checkDuration('publishTimeout', publishTimeout, { min: 1 }),
    destinationBackoff: checkFunction('destinationBackoff', destinationBackoff),
    concurrency: checkCount('concurrency', concurrency),
  }
}

function checkDestinations(destinations: readonly string[]): void {
  if (!Array.isArray(destinations) || destinations.length === 0) {
    throw new InvalidOptionError('destinations', 'must be a list of names, at least one; leave it out for all of them.')
  }
  for (const [index, name] of destinations.entries()) checkName(`destinations[${index}]`, name)
}
