import type { Runtime, Timer } from '@ackord/core'
import { answerTimeout, settledWithin } from '@ackord/core/internal'
import type { NatsConnection, NatsMessage, NatsSubscription } from '../client.ts'
import type { ConnectionWatch } from '../connection-watch.ts'
import type { JetStreamApi } from '../jetstream-api.ts'
import { type StreamDelivery, streamDelivery } from './read-message.ts'

export interface PullInboxSettings {
  readonly connection: NatsConnection
  readonly watch: ConnectionWatch
  readonly api: JetStreamApi
  readonly stream: string
  readonly consumer: string
  readonly inboxPrefix: string
  readonly runtime: Runtime
  readonly accept: (delivery: StreamDelivery) => void
  /** Asked after every answer: how many messages should be on their way. */
  readonly wanted: () => number
  /** Whether a request waits at the server at all times, so that others can see that somebody reads. */
  readonly always: boolean
  /** What one request may ask for at most. */
  readonly maxBatch: number
  /** Milliseconds that a request may wait at most. */
  readonly maxExpires: number
}

// Milliseconds. A request that found nothing ends by itself; signs of life come in between.
const expires = 30_000
const heartbeat = 5000

/**
 * Asks a consumer for messages, again and again, and counts what is on its way. The client's own loop does the same, but drops what arrives while
 * it is left; here it is given back.
 */
export class PullInbox {
  /** Resolves when nothing more comes, with the reason. */
  readonly ended: Promise<unknown>
  readonly #settings: PullInboxSettings
  readonly #inbox: string
  readonly #expires: number
  #subscription: NatsSubscription | undefined
  #requested = 0
  #requests = 0
  #lastSeen = 0
  #monitor: Timer | undefined
  #renewal: Timer | undefined
  #hasEnded = false
  #leaving: Promise<void> | undefined
  #end: (reason: unknown) => void = () => {}

  constructor(settings: PullInboxSettings) {
    this.#settings = settings
    this.#inbox = `${settings.inboxPrefix}.${settings.runtime.uuid()}`
    this.#expires = Math.min(expires, settings.maxExpires)
    this.ended = new Promise((resolve) => {
      this.#end = resolve
    })
  }

  /** How many requests of ours wait at the server, at most. */
  get requests(): number {
    return this.#requests
  }

  /** Whether nothing more comes. */
  get hasEnded(): boolean {
    return this.#hasEnded
  }

  open(): void {
    const { connection } = this.#settings
    this.#subscription = connection.subscribe(this.#inbox, {
      callback: (error, message) => {
        if (error === null) this.#receive(message)
        else this.end(error)
      },
    })
    this.refill()
    this.#watchSilence()
    if (this.#settings.always) this.#renew()
  }

  /** Asks for what is wanted and not on its way, in portions. */
  refill(): void {
    if (this.#hasEnded) return
    const missing = this.#settings.wanted() - this.#requested
    if (missing > 0 && (this.#requested === 0 || missing >= this.#requested / 3)) this.#pull(missing)
  }

  /** Nothing more is asked for. */
  end(reason: unknown): void {
    this.#hasEnded = true
    this.#monitor?.cancel()
    this.#renewal?.cancel()
    this.#end(reason)
  }

  /**
   * Resolves when all that NATS had sent has been accepted, as far as it can be told, and JetStream has forgotten the requests; only then may anything be given back:
   * a server that finds a request without a reader (2.9) takes the message for delivered, and it comes again no sooner than after `ack_wait`. Idempotent.
   */
  leave(): Promise<void> {
    this.end(undefined)
    this.#leaving ??= this.#drain()
    return this.#leaving
  }

  async #drain(): Promise<void> {
    const { connection, watch, api, stream, consumer, runtime } = this.#settings
    if (this.#subscription === undefined || connection.isClosed()) return
    const draining = this.#subscription.drain()
    draining.catch(() => {}) // the connection went meanwhile, and nothing comes any more
    if (watch.isUp) await settledWithin(runtime, answerTimeout, draining)
    // Asked for its state, it looks which requests still have a reader.
    if (watch.isUp) await settledWithin(runtime, answerTimeout, api.consumerInfo(stream, consumer))
  }

  #pull(wanted: number): void {
    const { api, stream, consumer, maxBatch, runtime } = this.#settings
    const batch = Math.min(wanted, maxBatch)
    // Nobody owed a sign of life while nothing was asked for.
    if (this.#requested === 0) this.#lastSeen = runtime.monotonic()
    this.#requested += batch
    this.#requests += 1
    try {
      api.pull(stream, consumer, this.#inbox, { batch, expires: this.#expires, heartbeat: Math.min(heartbeat, this.#expires / 2) })
    } catch (error) {
      this.end(error)
    }
  }

  // Called by the client while it reads the socket: what it throws would end the connection.
  #receive(message: NatsMessage): void {
    this.#lastSeen = this.#settings.runtime.monotonic()
    const delivery = streamDelivery(message)
    if (delivery === undefined) {
      this.#status(message)
      return
    }
    this.#requested = Math.max(0, this.#requested - 1)
    this.#settings.accept(delivery)
    this.refill()
  }

  #status({ headers }: NatsMessage): void {
    const code = headers?.code ?? 0
    if (code === signOfLife) return
    const description = headers?.description ?? ''
    if (/deleted|push based|shutdown|leadership|MaxRequest/i.test(description) || code === badRequest || code === 503) {
      this.end(new Error(`NATS answered a request for messages with ${code} ${description}`))
      return
    }
    // The request is over, with so many messages that did not come.
    this.#requests = Math.max(0, this.#requests - 1)
    const left = Number(headers?.get('Nats-Pending-Messages'))
    this.#requested = Number.isSafeInteger(left) && left > 0 ? Math.max(0, this.#requested - left) : 0
    if (code === tooManyRequests) return // the monitor tries again
    this.refill()
  }

  /** Requests that JetStream has lost are made again. Whether the consumer is still there is found out by those who open another inbox. */
  #watchSilence(): void {
    const { runtime } = this.#settings
    this.#lastSeen = runtime.monotonic()
    const look = () => {
      if (this.#settings.wanted() > 0 && runtime.monotonic() - this.#lastSeen >= 3 * heartbeat) {
        this.end(new Error(`NATS gave no sign of life for ${3 * heartbeat} ms`))
        return
      }
      this.refill()
      this.#monitor = runtime.setTimeout(look, heartbeat, { keepAlive: false })
    }
    this.#monitor = runtime.setTimeout(look, heartbeat, { keepAlive: false })
  }

  #renew(): void {
    this.#renewal = this.#settings.runtime.setTimeout(
      () => {
        this.#pull(this.#settings.wanted())
        this.#renew()
      },
      this.#expires / 2,
      { keepAlive: false },
    )
  }
}

const signOfLife = 100
const badRequest = 400
const tooManyRequests = 409
