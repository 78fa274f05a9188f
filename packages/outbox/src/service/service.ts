import {
  AckordError,
  type Closable,
  consoleLogger,
  type Destination,
  type HandleOneOptions,
  type HandleOneResult,
  type Handler,
  InvalidOptionError,
  type Logger,
  type Marshaler,
  type Message,
  type Metrics,
  type Middleware,
  type Publisher,
  Router,
  type RouterHealth,
  type RouterOptions,
  type Runtime,
  type Source,
  systemRuntime,
  toError,
} from '@ackord/core'
import { checkFunction, checkName, describeMessage, guardLogger, guardMetrics, rejectUnknownOptions } from '@ackord/core/internal'
import type { CodecOptions } from '@ackord/core/payload'
import type { PublisherMap, RelayOptions } from '../options/relay-options.ts'
import { Relay, type RelayHealth } from '../relay/relay.ts'
import type { OutboxAdmin } from '../store/outbox-admin.ts'
import type { OutboxStore, OutboxWriter } from '../store/outbox-store.ts'
import { waitForSignal } from './signals.ts'

/** The ports that all parts of a service share. Its source, its publishers and its store inherit logger and metrics; one with another clock needs the runtime too. */
export interface ServicePorts {
  readonly logger: Logger
  readonly metrics: Metrics | undefined
  readonly runtime: Runtime
}

/**
 * The options of a service on every store. `codecs` and `codecTimeout`: for the data of the messages that it reads, and of its events, those of handlers and those of
 * `service.outbox.append()`.
 */
export interface ServiceOptions extends CodecOptions {
  /**
   * Where messages come from: a source, such as `rabbitmqSource(connection, { queue: 'orders' })`, or a function that creates one. Default: none; the service handles the
   * messages that are passed to `handleOne()`, such as those of a serverless function.
   */
  readonly source?: Source | ((ports: ServicePorts) => Source) | undefined
  /** Handles the messages of the source, or of `handleOne()`, one handler per type. Required with `source`. */
  readonly handlers?: readonly Handler[] | undefined
  /** The name of this consumer in the inbox: each consumer handles a message once. Required with `handlers`. */
  readonly consumer?: string | undefined
  /** How many messages are handled concurrently. Default: 1. */
  readonly concurrency?: number | undefined
  /** Middleware around the transaction of a message, the outermost first. Default: none. */
  readonly use?: readonly Middleware[] | undefined
  /**
   * Where events are published, or a function that creates the publisher. Default: none; the service stores events, and a relay in another process, such as
   * `ackord relay`, publishes them.
   */
  readonly publisher?: Publisher | PublisherMap | ((ports: ServicePorts) => Publisher | PublisherMap) | undefined
  /** Where events go: a fixed destination, or one chosen per event. Default: none; a handler that returns an event rejects its message. */
  readonly destination?: Destination | undefined
  /** The CloudEvents source of events that have none, such as `/orders`. Default: that of the handler. */
  readonly eventSource?: string | undefined
  /** Converts data to bytes and back, for messages and events. Default: JSON. */
  readonly marshaler?: Marshaler | undefined
  /** Further options of the router. */
  readonly router?: Omit<RouterOptions, keyof ServicePorts | keyof CodecOptions | 'concurrency' | 'source'> | undefined
  /** Further options of the relay. */
  readonly relay?: Omit<RelayOptions, keyof ServicePorts | 'publisher'> | undefined
  /** Called by `close()` when everything else is closed, for connections that the service uses: `() => pool.end()`. Default: none. */
  readonly onClose?: (() => unknown) | undefined
  /** For all parts that were given none. Default: the console, from `info` up. */
  readonly logger?: Logger | undefined
  /** For all parts that were given none. Default: those of `telemetry`, or none. */
  readonly metrics?: Metrics | undefined
  /** Spans and metrics for all parts: `telemetry()` of `@ackord/telemetry`. Default: none. */
  readonly telemetry?: ServiceTelemetry | undefined
  /** Default: `systemRuntime`. */
  readonly runtime?: Runtime | undefined
}

/** Adds telemetry to the parts of a service. Each function returns the same part, observed. */
export interface ServiceTelemetry {
  /** The outermost middleware. */
  readonly middleware: Middleware
  publisher<P extends Publisher>(publisher: P): P
  source<S extends Source>(source: S): S
  outbox<Outbox extends object>(outbox: Outbox): Outbox
  readonly metrics: Metrics
}

/** How the events of handlers are stored. */
export interface ServiceOutputs extends CodecOptions {
  readonly destination: Destination
  readonly marshaler: Marshaler | undefined
}

/** The parts of a service that depend on its store. */
export interface ServiceStore<Outbox> {
  readonly outbox: Outbox
  /** Transaction, inbox and outbox, around the handlers. */
  transactional(consumer: string, outputs: ServiceOutputs): Middleware
  /** Starts to delete what the store no longer needs. Default: nothing has to be deleted. */
  startCleanup?(): { stop(): Promise<void> }
}

export interface ServiceHealth {
  readonly state: 'idle' | 'running' | 'stopping' | 'closed'
  /** Whether it is running, the store answers, the store accepts writes, and no destination is down. */
  readonly healthy: boolean
  /** `undefined` for a service without handlers. */
  readonly router: RouterHealth | undefined
  /** `undefined` for a service without a publisher. */
  readonly relay: RelayHealth | undefined
  /** Why the service no longer handles messages: its source has failed. */
  readonly error: Error | undefined
}

/** The other options of `Router.handleOne()` are those of the service. */
export type ServiceHandleOneOptions = Pick<HandleOneOptions, 'signal' | 'timeout' | 'grace'>

export interface RunUntilSignalOptions {
  /** Default: SIGTERM and SIGINT. */
  readonly signals?: readonly NodeJS.Signals[] | undefined
}

type AnyOutbox = OutboxStore & OutboxAdmin & OutboxWriter<never>

/**
 * A router, its transactional middleware, an outbox, a relay and a cleanup, with one logger. It is made of public parts, which it shows: everything that it does can be
 * done without it.
 *
 *     idle ─ start() ─▶ running ─ stop() ─▶ idle ─ close() ─▶ closed
 */
export class Service<Outbox extends AnyOutbox = AnyOutbox> implements Closable {
  readonly outbox: Outbox
  /** `undefined` for a service without handlers. */
  readonly router: Router | undefined
  /** `undefined` for a service without a publisher. */
  readonly relay: Relay | undefined
  readonly source: Source | undefined
  readonly publisher: Publisher | PublisherMap | undefined
  readonly #store: ServiceStore<Outbox>
  readonly #options: ServiceOptions
  readonly #logger: Logger
  #run: Run | undefined
  #stopping: Promise<void> | undefined
  #closing: Promise<void> | undefined
  #error: Error | undefined

  constructor(createStore: (ports: ServicePorts) => ServiceStore<Outbox>, options: ServiceOptions) {
    const { source, handlers, consumer, concurrency, use = [], publisher, destination = noDestination, eventSource, ...others } = options
    const { marshaler, router, relay, onClose, logger: given = consoleLogger, metrics: ownMetrics, telemetry, ...rest } = others
    const { runtime = systemRuntime, codecs, codecTimeout, ...unknown } = rest
    rejectUnknownOptions('createService()', unknown)
    checkParts(options)
    if (onClose !== undefined) checkFunction('onClose', onClose)
    if (telemetry !== undefined) checkTelemetry(telemetry)
    const givenMetrics = ownMetrics ?? telemetry?.metrics
    const metrics = givenMetrics === undefined ? undefined : guardMetrics(givenMetrics)
    const ports: ServicePorts = { logger: guardLogger(given), metrics, runtime }
    this.#options = options
    this.#logger = ports.logger
    this.#store = createStore(ports)
    const { outbox } = this.#store
    const publishers = typeof publisher === 'function' ? publisher(ports) : publisher
    const reader = typeof source === 'function' ? source(ports) : source
    this.outbox = telemetry?.outbox(outbox) ?? outbox
    this.publisher = telemetry === undefined || publishers === undefined ? publishers : tracedPublishers(publishers, telemetry)
    this.source = telemetry === undefined || reader === undefined ? reader : telemetry.source(reader)
    // Already now: a connection may be lost before the start.
    this.source?.inheritPorts?.(ports)
    if (this.publisher !== undefined) this.relay = new Relay(this.outbox, { ...relay, ...ports, publisher: this.publisher })
    if (handlers === undefined || consumer === undefined) return
    this.router = new Router({ ...router, ...ports, concurrency, source: eventSource })
      .use(
        ...(telemetry === undefined ? [] : [telemetry.middleware]),
        ...use,
        this.#store.transactional(consumer, { destination, marshaler, codecs, codecTimeout }),
      )
      .handleAll(...handlers)
  }

  /** Starts the relay, the cleanup and the handling of messages. Has no effect on a running service. */
  start(): this {
    if (this.#closing !== undefined) throw new AckordError('ACKORD_ALREADY_STARTED', 'The service is closed. Create another one.')
    if (this.#stopping !== undefined) {
      throw new AckordError('ACKORD_ALREADY_STARTED', 'The service is stopping. Await stop() before you start it again.')
    }
    if (this.source === undefined && this.router !== undefined) throw new InvalidOptionError('source', noSource)
    this.#run ??= this.#begin()
    return this
  }

  /**
   * Handles one message in a service without a source, with inbox and outbox, without `start()`: see `Router.handleOne()`. Events stay in the outbox until a relay publishes
   * them: `service.relay.drain()`, or one elsewhere.
   */
  async handleOne(message: Message, options: ServiceHandleOneOptions = {}): Promise<HandleOneResult> {
    if (this.router === undefined) throw new InvalidOptionError('handlers', 'are required for handleOne().')
    const { signal, timeout, grace, ...unknown } = options
    rejectUnknownOptions('handleOne()', unknown)
    const { marshaler, codecs, codecTimeout } = this.#options
    return await this.router.handleOne(message, { signal, timeout, grace, marshaler, codecs, codecTimeout })
  }

  /**
   * Stops reading messages, lets handlers finish, and then stops the relay and the cleanup. Events that are not published yet stay in the outbox. Idempotent in every
   * state. The service can be started again.
   */
  async stop(): Promise<void> {
    const run = this.#run
    if (run === undefined) {
      // There may be calls of `handleOne()` and `drain()`.
      await this.router?.stop()
      await this.relay?.stop()
      return
    }
    this.#stopping ??= this.#end(run).finally(() => {
      this.#run = undefined
      this.#stopping = undefined
    })
    await this.#stopping
  }

  /** Stops the service, closes its source and its publishers, and calls `onClose`. Idempotent. */
  close(): Promise<void> {
    this.#closing ??= this.#close()
    return this.#closing
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  /**
   * Starts the service, waits for a signal such as SIGTERM, and closes it. A second signal ends the process at once, as signals do by default. Rejects if the
   * source fails, after the service is closed.
   */
  async runUntilSignal(options: RunUntilSignalOptions = {}): Promise<void> {
    const { signals = ['SIGTERM', 'SIGINT'] } = options
    this.start()
    const { received, stop } = waitForSignal(signals)
    try {
      const signal = await Promise.race([received, this.#run?.ended])
      if (signal !== undefined) this.#logger.info({ signal }, 'The service stops because of a signal.')
    } finally {
      stop()
      await this.close()
    }
    if (this.#error !== undefined) throw this.#error
  }

  health(): ServiceHealth {
    const router = this.router?.health()
    const relay = this.relay?.health()
    const state =
      this.#closing !== undefined ? 'closed' : this.#stopping !== undefined ? 'stopping' : this.#run !== undefined ? 'running' : 'idle'
    const relayWorks = relay === undefined || (relay.store === 'up' && relay.downDestinations.length === 0)
    const healthy = state === 'running' && this.#error === undefined && router?.paused !== true && relayWorks
    return { state, healthy, router, relay, error: this.#error }
  }

  #begin(): Run {
    this.#error = undefined
    this.relay?.start()
    const cleanup = this.#store.startCleanup?.()
    const { router, source } = this
    if (router === undefined || source === undefined) return { cleanup, ended: new Promise(() => {}) }
    const { marshaler, codecs, codecTimeout } = this.#options
    const ended = router.run(source, { marshaler, codecs, codecTimeout }).catch((error: unknown) => {
      this.#error = toError(error)
      this.#logger.error({ err: error }, 'The source of the service has failed: no more messages are handled.')
    })
    return { cleanup, ended }
  }

  async #end({ cleanup, ended }: Run): Promise<void> {
    await this.router?.stop()
    if (this.router !== undefined) await ended
    await Promise.all([this.relay?.stop(), cleanup?.stop()])
  }

  async #close(): Promise<void> {
    await this.stop()
    try {
      await closeAll([this.source, ...publishersOf(this.publisher)])
    } finally {
      await this.#options.onClose?.()
    }
  }
}

interface Run {
  readonly cleanup: { stop(): Promise<void> } | undefined
  /** Resolves when the source has ended or failed; never for a service without one. */
  readonly ended: Promise<void>
}

function checkParts({ source, handlers, consumer, publisher, use }: ServiceOptions): void {
  if (handlers !== undefined && !Array.isArray(handlers)) throw new InvalidOptionError('handlers', 'must be an array of handlers.')
  if (use !== undefined && !Array.isArray(use)) throw new InvalidOptionError('use', 'must be an array of middleware.')
  if (source === undefined && publisher === undefined && handlers === undefined) {
    throw new InvalidOptionError(
      'createService()',
      'needs a `source` with `handlers`, a `publisher`, or both: otherwise it has nothing to do.',
    )
  }
  if (source === undefined && handlers === undefined) return
  if (handlers === undefined || handlers.length === 0)
    throw new InvalidOptionError('handlers', 'is required with `source`: at least one handler.')
  if (consumer === undefined) {
    throw new InvalidOptionError(
      'consumer',
      "is required with `handlers`: the name under which the inbox remembers handled messages, such as 'orders'.",
    )
  }
  checkName('consumer', consumer)
}

const noSource =
  'is required to start a service with `handlers`: it is where their messages come from. Without one, a service handles the messages that are passed to handleOne(), and is not started.'

/** Not retryable: handling the message again would not change it. */
function noDestination(message: Message): never {
  const text = `A handler returned ${describeMessage(message)}, and the service has no destination. Set it in createService().`
  throw new AckordError('ACKORD_INVALID_OUTPUT', text, { retryable: false })
}

function checkTelemetry({ middleware, publisher, source, outbox, metrics }: ServiceTelemetry): void {
  for (const [name, part] of Object.entries({ middleware, publisher, source, outbox })) checkFunction(`telemetry.${name}`, part)
  if (metrics === undefined)
    throw new InvalidOptionError('telemetry.metrics', 'is missing. Pass what telemetry() of @ackord/telemetry returns.')
}

function tracedPublishers(publisher: Publisher | PublisherMap, telemetry: ServiceTelemetry): Publisher | PublisherMap {
  if (isPublisher(publisher)) return telemetry.publisher(publisher)
  // Several destinations may share a publisher.
  const traced = new Map(Object.values(publisher).map((one) => [one, telemetry.publisher(one)]))
  return Object.fromEntries(Object.entries(publisher).map(([destination, one]) => [destination, traced.get(one) ?? one]))
}

function isPublisher(publisher: Publisher | PublisherMap): publisher is Publisher {
  return typeof publisher.publish === 'function'
}

function publishersOf(publisher: Publisher | PublisherMap | undefined): readonly Publisher[] {
  if (publisher === undefined) return []
  return isPublisher(publisher) ? [publisher] : [...new Set(Object.values(publisher))]
}

/** Closes all, also if one fails, and then rejects with the first failure. */
async function closeAll(parts: readonly (Source | Publisher | undefined)[]): Promise<void> {
  const results = await Promise.allSettled(parts.map((part) => (part?.close ?? part?.[Symbol.asyncDispose])?.call(part)))
  const failed = results.find((result) => result.status === 'rejected')
  if (failed !== undefined) throw failed.reason
}
