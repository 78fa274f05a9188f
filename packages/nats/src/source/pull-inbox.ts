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
  /** Called after every answer: how many messages should be requested in total. */
  readonly wanted: () => number
  /** Whether a request waits at the server at all times, so that other sources can see that the consumer is being read. */
  readonly always: boolean
  /** The most messages of one request. */
  readonly maxBatch: number
  /** The longest time in milliseconds that a request may wait. */
  readonly maxExpires: number
}

// Milliseconds. A request without messages expires; JetStream sends heartbeats in between.
const expires = 30_000
const heartbeat = 5000

/**
 * Requests messages of a consumer, and counts the requested ones. The client's own loop does the same, but drops messages that arrive while
 * it is being left; here they are returned to NATS.
 */
export class PullInbox {
  /** Resolves, with the reason, when no more messages come. */
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

  /** The most requests of this inbox that may be waiting at the server. */
  get requests(): number {
    return this.#requests
  }

  /** Whether no more messages come. */
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

  /** Requests the missing messages, several at a time. */
  refill(): void {
    if (this.#hasEnded) return
    const missing = this.#settings.wanted() - this.#requested
    if (missing > 0 && (this.#requested === 0 || missing >= this.#requested / 3)) this.#pull(missing)
  }

  /** Requests no more messages. */
  end(reason: unknown): void {
    this.#hasEnded = true
    this.#monitor?.cancel()
    this.#renewal?.cancel()
    this.#end(reason)
  }

  /**
   * Resolves when everything that NATS had sent has been accepted, as far as can be known, and JetStream has dropped the requests. Only then may messages be returned:
   * a server that finds a request without a subscriber (2.9) counts the message as delivered, and redelivers it only after `ack_wait`. Idempotent.
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
    draining.catch(() => {}) // the connection was lost meanwhile, and nothing comes any more
    if (watch.isUp) await settledWithin(runtime, answerTimeout, draining)
    // When its state is requested, JetStream checks which requests still have a subscriber.
    if (watch.isUp) await settledWithin(runtime, answerTimeout, api.consumerInfo(stream, consumer))
  }

  #pull(wanted: number): void {
    const { api, stream, consumer, maxBatch, runtime } = this.#settings
    const batch = Math.min(wanted, maxBatch)
    // No heartbeats come while nothing is requested.
    if (this.#requested === 0) this.#lastSeen = runtime.monotonic()
    this.#requested += batch
    this.#requests += 1
    try {
      api.pull(stream, consumer, this.#inbox, { batch, expires: this.#expires, heartbeat: Math.min(heartbeat, this.#expires / 2) })
    } catch (error) {
      this.end(error)
    }
  }

  // Called by the client while it reads the socket: an exception would end the connection.
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
    if (code === idleHeartbeat) return
    const description = headers?.description ?? ''
    if (/deleted|push based|shutdown|leadership|MaxRequest/i.test(description) || code === badRequest || code === 503) {
      this.end(new Error(`NATS answered a request for messages with ${code} ${description}`))
      return
    }
    // The request has ended; the header says how many messages did not come.
    this.#requests = Math.max(0, this.#requests - 1)
    const left = Number(headers?.get('Nats-Pending-Messages'))
    this.#requested = Number.isSafeInteger(left) && left > 0 ? Math.max(0, this.#requested - left) : 0
    if (code === tooManyRequests) return // the monitor repeats it
    this.refill()
  }

  /** Repeats requests that JetStream has lost. Whether the consumer still exists is checked when another inbox is opened. */
  #watchSilence(): void {
    const { runtime } = this.#settings
    this.#lastSeen = runtime.monotonic()
    const check = () => {
      if (this.#settings.wanted() > 0 && runtime.monotonic() - this.#lastSeen >= 3 * heartbeat) {
        this.end(new Error(`NATS sent nothing for ${3 * heartbeat} ms`))
        return
      }
      this.refill()
      this.#monitor = runtime.setTimeout(check, heartbeat, { keepAlive: false })
    }
    this.#monitor = runtime.setTimeout(check, heartbeat, { keepAlive: false })
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

const idleHeartbeat = 100
const badRequest = 400
const tooManyRequests = 409
