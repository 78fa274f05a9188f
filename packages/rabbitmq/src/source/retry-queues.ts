import { type Logger, type PublishResult, type Runtime, toError } from '@ackord/core'
import { settledWithin } from '@ackord/core/internal'
import { type RabbitmqConnection, type RabbitmqMessage, type RabbitmqProperties, replyCode } from '../client.ts'
import { PublishChannel } from '../publisher/publish-channel.ts'
import { declareTopology, type TopologyConnection } from '../topology/declare-topology.ts'
import { retryExchange, retryQueue, retryTopology } from '../topology/retry-topology.ts'
import { headerOf } from './read-message.ts'

export interface RetryQueuesOptions {
  readonly connection: RabbitmqConnection
  readonly queue: string
  readonly runtime: Runtime
  readonly logger: Logger
}

// Milliseconds: the time limit of a confirm, and the pause before the queues are tried again after a failure.
const confirmTimeout = 5000
const retryPause = 60_000
const notAllowed = 403

/**
 * Queues in which nacked messages wait for their delay, instead of in this process. They are declared when they are first needed. If the user may not declare the
 * exchange, an operator must have created all of them; otherwise everything must be as declared, because a message could not return from a queue that is not bound.
 */
export class RetryQueues {
  readonly #options: RetryQueuesOptions
  #opening: Promise<PublishChannel> | undefined
  #declaring: Promise<void> | undefined
  /** Whether messages may be waiting in the queues. */
  #used = false
  #notBefore = -Infinity
  #warned = false

  constructor(options: RetryQueuesOptions) {
    this.#options = options
  }

  /** `false` during the pause after a failure. */
  get isUsable(): boolean {
    return this.#options.runtime.monotonic() >= this.#notBefore
  }

  /** From now on no message is sent to the retry queues. */
  stop(): void {
    this.#notBefore = Infinity
  }

  /** Called when the queue is consumed again. It may have been deleted and created again, without the binding through which messages return. */
  restore(): void {
    if (!this.#used) return
    // A failure that came with the lost channel says nothing about the queues.
    if (this.#notBefore !== Infinity) this.#notBefore = -Infinity
    this.#declaring = this.#declare()
    this.#declaring.catch((error: unknown) => this.#unusable(error))
  }

  /** Publishes a copy that returns to the queue after the delay. `true` once RabbitMQ has confirmed it; only then may the message be acked. Never rejects. */
  async publish(native: RabbitmqMessage, delay: number, deliveries: number): Promise<boolean> {
    const { queue, runtime } = this.#options
    const properties = retryProperties(native, queue, delay, deliveries)
    if (properties === undefined) return false
    const limit = new AbortController()
    const timer = runtime.setTimeout(() => limit.abort(new Error(`RabbitMQ did not confirm within ${confirmTimeout} ms.`)), confirmTimeout)
    try {
      this.#declaring ??= this.#declare()
      await this.#declaring
      this.#opening ??= this.#open()
      const channel = await this.#opening
      this.#used = true
      const result = await new Promise<PublishResult>((settle) => {
        limit.signal.addEventListener('abort', () => settle({ ok: false, error: limit.signal.reason }), { once: true })
        const item = { exchange: '', routingKey: retryQueue(queue, delay), body: native.content, properties }
        void channel.send([{ item, settle }], limit.signal)
      })
      // A permanent failure is about this message, not about the queues.
      if (!result.ok && result.permanent !== true) this.#unusable(result.error)
      return result.ok
    } catch (error) {
      this.#unusable(error)
      return false
    } finally {
      timer.cancel()
    }
  }

  /** Idempotent. */
  async close(): Promise<void> {
    const opening = this.#opening
    this.#opening = undefined
    if (opening !== undefined)
      await settledWithin(
        this.#options.runtime,
        confirmTimeout,
        opening.then((channel) => channel.close()),
      )
  }

  async #declare(): Promise<void> {
    const { connection: given, queue } = this.#options
    // A connection of amqplib has more methods than sources and publishers use.
    const connection = given as unknown as TopologyConnection
    const { exchanges, ...others } = retryTopology(queue)
    try {
      await declareTopology(connection, { exchanges })
    } catch (error) {
      if (error instanceof Error && replyCode(error.cause) === notAllowed) return
      throw error
    }
    await declareTopology(connection, others)
  }

  async #open(): Promise<PublishChannel> {
    const { connection } = this.#options
    const settings = { mandatory: true, persistent: true, unroutable: 'destination', onClosed: () => this.#closed() } as const
    return new PublishChannel(await connection.createConfirmChannel(), settings)
  }

  #closed(): void {
    this.#opening = undefined
  }

  #unusable(error: unknown): void {
    const { queue, runtime, logger } = this.#options
    this.#opening?.then((channel) => channel.close()).catch(() => {})
    this.#opening = undefined
    this.#declaring = undefined
    this.#notBefore = Math.max(this.#notBefore, runtime.monotonic() + retryPause)
    if (!this.#warned) logger.warn({ err: toError(error), queue }, unusable)
    this.#warned = true
  }
}

const unusable =
  'Nacked messages cannot wait in the retry queues, and wait in the process: as many as prefetch stop the source until their delay is over. Declare the queue with retry: true, or grant the user the permission to declare it.'

const deliveriesHeader = 'x-ackord-deliveries'
const exchangeHeader = 'x-ackord-exchange'
const routingKeyHeader = 'x-ackord-routing-key'
const userHeader = 'x-ackord-user-id'

/** Written by RabbitMQ or by this package at each delivery; `CC` and `BCC` would make RabbitMQ send copies to other queues. */
const ownHeaders: ReadonlySet<string> = new Set([
  deliveriesHeader,
  exchangeHeader,
  routingKeyHeader,
  userHeader,
  'x-ackord-key',
  'x-delivery-count',
  'x-acquired-count',
  'x-death',
  'CC',
  'BCC',
])

/** Whether the message came back from a retry queue. RabbitMQ sets the exchange: a sender could forge it only with the permission to write to that exchange. */
function isReturned({ fields }: RabbitmqMessage, queue: string): boolean {
  return fields.exchange === retryExchange(queue)
}

/** How often the message was delivered before it waited in a retry queue. A count that came through another exchange is ignored. */
export function carriedDeliveries(native: RabbitmqMessage, queue: string): number {
  if (!isReturned(native, queue)) return 0
  const count = headerOf(native.properties.headers, deliveriesHeader)
  return typeof count === 'number' && Number.isSafeInteger(count) && count > 0 ? count : 0
}

/** The message as it was delivered first: with the exchange and the routing key that it was published to, and the user who published it. */
export function restoreFields(native: RabbitmqMessage, queue: string): RabbitmqMessage {
  if (!isReturned(native, queue)) return native
  const { headers } = native.properties
  const [exchange, routingKey] = [headerOf(headers, exchangeHeader), headerOf(headers, routingKeyHeader)]
  if (typeof exchange !== 'string' || typeof routingKey !== 'string') return native
  const properties = { ...native.properties, userId: headerOf(headers, userHeader) }
  return { ...native, fields: { ...native.fields, exchange, routingKey }, properties }
}

/** The properties of the copy in a retry queue, which has the same content, id and headers. */
interface RetryProperties extends RabbitmqProperties {
  readonly expiration: string
}

/** `undefined` if the message cannot be republished: it has a time to live of its own, which would start again. */
function retryProperties(native: RabbitmqMessage, queue: string, delay: number, deliveries: number): RetryProperties | undefined {
  // RabbitMQ refuses a user id other than the publisher's.
  const { headers = {}, expiration, userId: _userId, clusterId: _clusterId, deliveryMode: _mode, ...properties } = native.properties
  if (expiration !== undefined) return undefined
  const { fields, properties: before } = restoreFields(native, queue)
  const user = before.userId === undefined ? [] : [[userHeader, before.userId] as const]
  const kept = Object.entries(headers).filter(([name]) => !ownHeaders.has(name) && !/^x-(first|last)-death-/.test(name))
  return {
    // amqplib has read them from a message, so they are valid.
    ...(properties as Omit<RabbitmqProperties, 'headers'>),
    headers: Object.fromEntries([
      ...kept,
      [deliveriesHeader, deliveries],
      [exchangeHeader, fields.exchange],
      [routingKeyHeader, fields.routingKey],
      ...user,
    ]),
    expiration: String(Math.ceil(delay)),
  }
}
