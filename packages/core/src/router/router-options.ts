import { type Backoff, exponentialBackoff } from '../async/backoff.ts'
import { InvalidOptionError } from '../errors.ts'
import { type FairnessOptions, type FairnessSettings, fairnessSettings } from '../fairness/fairness-options.ts'
import type { Message } from '../message/message.ts'
import { checkChoice, checkCount, checkDuration, checkFunction, checkName, rejectUnknownOptions } from '../options.ts'
import type { CodecOptions } from '../payload/codec.ts'
import { codecChain } from '../payload/codec-chain.ts'
import type { DescribedMetrics } from '../ports/metric-table.ts'
import type { Metrics } from '../ports/metrics.ts'
import { consoleLogger, guardLogger, guardMetrics, type Logger } from '../ports/observability.ts'
import type { SharedPorts } from '../ports/part-ports.ts'
import { type Runtime, systemRuntime } from '../ports/runtime.ts'
import type { AckStrategy } from './ack-strategy.ts'

/** The settlement of a message that could not be handled: acked as handled, redelivered (after a number of milliseconds), or rejected. */
export type ErrorDecision = 'ack' | 'nack' | 'reject' | { readonly retryAfter: number }

/** `codecs` and `codecTimeout`: the defaults of `run()` and of the inputs and outputs of an engine. */
export interface RouterOptions extends CodecOptions {
  /** When a message is settled. Default: 'onSuccess'. */
  readonly ackStrategy?: AckStrategy | undefined
  /** The maximum number of messages handled concurrently. Default: 1. */
  readonly concurrency?: number | undefined
  /**
   * Messages with the same key are handled one after the other, in the order they were read, others in parallel. `'partitionkey'` uses that
   * attribute. When a message is nacked, those of its key that were read after it are nacked too. Default: no order among concurrent messages.
   */
  readonly orderingKey?: 'partitionkey' | ((message: Message) => string | undefined) | undefined
  /**
   * The maximum number of messages that wait behind others of their ordering key, so that one busy key does not stop the rest; with `fairness` of all messages that wait in the
   * router. Default: 100.
   */
  readonly buffer?: number | undefined
  /**
   * Shares the slots evenly among the tenants of the messages that the router has read, and limits tenants in concurrency and rate. The router then reads up to
   * `concurrency + buffer` messages ahead, if the `prefetch` of the source allows that: best is twice as much. Messages of one tenant begin in the order in which they were
   * read. Default: messages begin in that order, whoever they belong to.
   */
  readonly fairness?: FairnessOptions | undefined
  /**
   * A message that fails at this delivery or a later one is rejected; one that was delivered more than twice as often is rejected without being
   * tried, because it may be what crashes the process. Requires a broker that counts deliveries. Default: Infinity, no limit.
   */
  readonly maxDeliveries?: number | undefined
  /**
   * Milliseconds before a nacked message should be redelivered, by the number of its deliveries; brokers without delays ignore it. Default:
   * exponential from 100 ms to 1 min, so that a failing message is not redelivered in a hot loop.
   */
  readonly redeliveryDelay?: Backoff | undefined
  /**
   * Milliseconds after which a handler's signal is aborted. The router still waits for the handler: its work cannot be rolled back while it runs.
   * Default: Infinity.
   */
  readonly processTimeout?: number | undefined
  /** Milliseconds that handlers get to finish after a stop before their signals are aborted; 0 aborts immediately. Default: 25,000. */
  readonly shutdownTimeout?: number | undefined
  /** For messages without a matching handler, by type or matcher. Default: 'reject'. */
  readonly onUnknownType?: 'reject' | 'nack' | 'ack' | undefined
  /**
   * Called with every error and its message; may decide what happens to the message. Default, and if it returns nothing: errors that are not
   * retryable reject the message, all others nack it.
   */
  readonly onError?: ((error: Error, message: Message) => ErrorDecision | undefined | void) | undefined
  /** The `source` of outputs whose handler sets none. Default: such an output is an error. */
  readonly source?: string | undefined
  /**
   * Whether `currentContext()` works in handlers. Turning it off doubles the router's speed on Node 20; contexts must then be passed explicitly.
   * Default: true.
   */
  readonly ambient?: boolean | undefined
  readonly runtime?: Runtime | undefined
  /** Also for the source, the publisher and the middleware that have none. Default: the console, from `info` up. */
  readonly logger?: Logger | undefined
  /** Also for the middleware that has none, such as an inbox. Default: none. */
  readonly metrics?: Metrics | undefined
}

export interface RouterSettings {
  readonly ackStrategy: AckStrategy
  readonly concurrency: number
  readonly orderingKey: ((message: Message) => string | undefined) | undefined
  readonly buffer: number
  readonly fairness: FairnessSettings | undefined
  readonly maxDeliveries: number
  readonly redeliveryDelay: Backoff
  readonly processTimeout: number
  readonly shutdownTimeout: number
  readonly onUnknownType: 'reject' | 'nack' | 'ack'
  readonly onError: ((error: Error, message: Message) => ErrorDecision | undefined | void) | undefined
  readonly source: string | undefined
  readonly ambient: boolean
  readonly codecs: CodecOptions
  readonly runtime: Runtime
  readonly logger: Logger
  readonly metrics: DescribedMetrics | undefined
  /** The router's ports, which the parts that it uses inherit. */
  readonly shared: SharedPorts
}

/** Applies the defaults and rejects invalid options. */
export function routerSettings(options: RouterOptions): RouterSettings {
  const {
    ackStrategy = 'onSuccess',
    concurrency = 1,
    orderingKey,
    buffer = 100,
    fairness,
    maxDeliveries = Infinity,
    redeliveryDelay = exponentialBackoff({ initial: 100 }),
    processTimeout = Infinity,
    shutdownTimeout = 25_000,
    onUnknownType = 'reject',
    onError,
    source,
    ambient = true,
    codecs,
    codecTimeout,
    runtime = systemRuntime,
    logger: givenLogger,
    metrics: givenMetrics,
    ...unknown
  } = options
  rejectUnknownOptions('A router', unknown)
  checkFunction('redeliveryDelay', redeliveryDelay)
  if (onError !== undefined) checkFunction('onError', onError)
  if (source !== undefined) checkName('source', source)
  codecChain({ codecs, codecTimeout }, runtime)
  const logger = guardLogger(givenLogger ?? consoleLogger)
  const metrics = givenMetrics === undefined ? undefined : guardMetrics(givenMetrics)
  return {
    ackStrategy: checkChoice('ackStrategy', ackStrategy, ['onSuccess', 'forward', 'manual']),
    concurrency: checkCount('concurrency', concurrency),
    orderingKey: keyFunction(orderingKey),
    buffer: checkCount('buffer', buffer, { min: 0 }),
    maxDeliveries: checkCount('maxDeliveries', maxDeliveries, { infinite: true }),
    fairness:
      fairness === undefined
        ? undefined
        : fairnessSettings(fairness, { buffer, maxDeliveries, isOrdered: orderingKey !== undefined, runtime }),
    redeliveryDelay,
    processTimeout: checkDuration('processTimeout', processTimeout, { infinite: true, min: 1 }),
    shutdownTimeout: checkDuration('shutdownTimeout', shutdownTimeout, { infinite: true }),
    onUnknownType: checkChoice('onUnknownType', onUnknownType, ['reject', 'nack', 'ack']),
    onError,
    source,
    ambient,
    codecs: { codecs, codecTimeout },
    runtime,
    logger,
    metrics,
    shared: { logger: givenLogger === undefined ? undefined : logger, metrics },
  }
}

function keyFunction(orderingKey: RouterOptions['orderingKey']): RouterSettings['orderingKey'] {
  if (orderingKey === 'partitionkey') return (message) => message.partitionKey
  if (orderingKey === undefined || typeof orderingKey === 'function') return orderingKey
  throw new InvalidOptionError('orderingKey', "must be 'partitionkey' or a function of the message.")
}
