import { type Handler, InvalidOptionError, type Logger } from '@ackord/core'
import type { IdempotencyStore } from '@ackord/outbox'
import type { Service, ServiceHealth } from '@ackord/outbox/service'
import type { InstanceSettings } from './instance-settings.ts'
import type { AnyOutbox } from './instance-store.ts'

/** The handlers of an instance, by consumer. */
export type HandlersByConsumer = ReadonlyMap<string, readonly Handler[]>

export interface AckordHealth {
  readonly state: 'idle' | 'running' | 'closed'
  /** Whether it is running, its consumers handle messages, and its relay publishes. */
  readonly healthy: boolean
  readonly consumers: Readonly<Record<string, ServiceHealth>>
  /** `undefined` if another process publishes. */
  readonly publishing: ServiceHealth | undefined
}

/**
 * The services of one store: one for each consumer, and one that publishes. Nest starts and stops it.
 *
 *     idle ─ start() ─▶ running ─ stop() ─▶ idle ─ close() ─▶ closed
 */
export class AckordInstance {
  readonly name: string
  /** The `Database` or the `Redis`. */
  readonly database: object
  readonly outbox: AnyOutbox
  /** Remembers the answers to requests, for `@Idempotent()`. */
  readonly idempotency: IdempotencyStore<unknown>
  readonly logger: Logger
  /** Publishes the events; `undefined` if another process does. */
  readonly publishing: Service | undefined
  readonly #settings: InstanceSettings
  readonly #findHandlers: () => HandlersByConsumer
  #consumers: ReadonlyMap<string, Service> | undefined
  #cleanup: { stop(): Promise<void> } | undefined
  #isRunning = false
  #closing: Promise<void> | undefined

  /** @internal `findHandlers` is called when all providers of the application exist. */
  constructor(name: string, settings: InstanceSettings, findHandlers: () => HandlersByConsumer) {
    const { database, outbox, idempotency, publishing } = settings.store
    this.name = name
    this.database = database
    this.outbox = outbox
    this.idempotency = idempotency
    this.logger = settings.logger
    this.publishing = publishing
    this.#settings = settings
    this.#findHandlers = findHandlers
  }

  /** The services that handle messages, by consumer. */
  get consumers(): ReadonlyMap<string, Service> {
    return this.prepare()
  }

  /** @internal Finds the handlers of the application, and fails if one of them is not configured. Idempotent. */
  prepare(): ReadonlyMap<string, Service> {
    this.#consumers ??= this.#createConsumers()
    return this.#consumers
  }

  /** Starts to publish, and then to handle messages. */
  start(): void {
    const { consumers } = this
    this.#isRunning = true
    this.publishing?.start()
    this.#cleanup ??= this.#settings.store.startCleanup?.()
    for (const service of consumers.values()) service.start()
  }

  /** Stops reading messages, lets handlers finish, and then stops publishing. Idempotent. */
  async stop(): Promise<void> {
    await Promise.all([...(this.#consumers?.values() ?? [])].map((service) => service.stop()))
    await Promise.all([this.publishing?.stop(), this.#cleanup?.stop()])
    this.#cleanup = undefined
    this.#isRunning = false
  }

  /** Stops, closes sources and publishers, and calls `onClose`. Idempotent. */
  close(): Promise<void> {
    this.#closing ??= this.#close()
    return this.#closing
  }

  health(): AckordHealth {
    const consumers = Object.fromEntries([...(this.#consumers ?? [])].map(([name, service]) => [name, service.health()]))
    const publishing = this.publishing?.health()
    const parts = publishing === undefined ? Object.values(consumers) : [publishing, ...Object.values(consumers)]
    const state = this.#closing !== undefined ? 'closed' : this.#isRunning ? 'running' : 'idle'
    return { state, healthy: state === 'running' && parts.every(({ healthy }) => healthy), consumers, publishing }
  }

  #createConsumers(): ReadonlyMap<string, Service> {
    const { store, consumers, anyConsumer, handleMessages } = this.#settings
    if (!handleMessages) return new Map()
    const handlers = this.#findHandlers()
    const names = anyConsumer === undefined ? [...consumers.keys()] : [...handlers.keys()]
    return new Map(
      names.map((name) => {
        const options = consumers.get(name) ?? anyConsumer?.(name)
        const found = handlers.get(name) ?? []
        if (options === undefined || found.length === 0) {
          throw new InvalidOptionError(
            `The consumer '${name}'`,
            `of the instance '${this.name}' has no handlers. Decorate methods of providers with @OnEvent() or @OnCommand().`,
          )
        }
        return [name, store.createConsumer({ name, options, handlers: found })]
      }),
    )
  }

  async #close(): Promise<void> {
    await this.stop()
    try {
      // Sources are closed before publishers: a source may publish a dead letter.
      const results = await Promise.allSettled(Array.from(this.#consumers?.values() ?? [], (service) => service.close()))
      results.push(...(await Promise.allSettled([this.publishing?.close()])))
      const failed = results.find((result) => result.status === 'rejected')
      if (failed !== undefined) throw failed.reason
    } finally {
      await this.#settings.onClose?.()
    }
  }
}
