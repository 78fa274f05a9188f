import { type Logger, type PublishResult, type Runtime, toError } from '@ackord/core'
import { settledWithin } from '@ackord/core/internal'
import { type RabbitmqConnection, type RabbitmqMessage, replyCode } from '../client.ts'
import { PublishChannel } from '../publisher/publish-channel.ts'
import { declareTopology, type TopologyConnection } from '../topology/declare-topology.ts'
import { retryQueue, retryTopology } from '../topology/retry-topology.ts'
import { retryProperties } from './retry-message.ts'

export interface RetryQueuesOptions {
  readonly connection: RabbitmqConnection
  readonly queue: string
  readonly runtime: Runtime
  readonly logger: Logger
}

// Milliseconds: for one message to be confirmed, and until the queues are tried again after they could not be used.
const confirmTimeout = 5000
const retryPause = 60_000
const notAllowed = 403

/**
 * Queues in which nacked messages wait for their delay, instead of in this process. They are declared when they are first needed. Where the user may not declare the
 * exchange, an operator has made them; otherwise all of it must be as declared, because a message could not return from a queue that is not bound.
 */
export class RetryQueues {
  readonly #options: RetryQueuesOptions
  #opening: Promise<PublishChannel> | undefined
  #declaring: Promise<void> | undefined
  /** Whether messages may be waiting in them. */
  #used = false
  #notBefore = -Infinity
  #warned = false

  constructor(options: RetryQueuesOptions) {
    this.#options = options
  }

  /** Whether it makes sense to try. */
  get isUsable(): boolean {
    return this.#options.runtime.monotonic() >= this.#notBefore
  }

  /** From now on no message waits in them. */
  stop(): void {
    this.#notBefore = Infinity
  }

  /** The queue is consumed again. It may have been deleted and made anew, without the binding through which messages return. */
  restore(): void {
    if (!this.#used) return
    // What failed when the channel was lost says nothing of the queues.
    if (this.#notBefore !== Infinity) this.#notBefore = -Infinity
    this.#declaring = this.#declare()
    this.#declaring.catch((error: unknown) => this.#unusable(error))
  }

  /** Publishes a copy that returns to the queue after the delay. `true` once RabbitMQ has confirmed it; only then may the message be acked. Never rejects. */
  async publish(native: RabbitmqMessage, delay: number, deliveries: number): Promise<boolean> {
    const { queue, runtime } = this.#options
    const properties = retryProperties(native, queue, delay, deliveries)
    if (properties === undefined) return false
    const giveUp = new AbortController()
    const timer = runtime.setTimeout(() => giveUp.abort(new Error(`RabbitMQ did not confirm within ${confirmTimeout} ms.`)), confirmTimeout)
    try {
      this.#declaring ??= this.#declare()
      await this.#declaring
      this.#opening ??= this.#open()
      const channel = await this.#opening
      this.#used = true
      const result = await new Promise<PublishResult>((settle) => {
        giveUp.signal.addEventListener('abort', () => settle({ ok: false, error: giveUp.signal.reason }), { once: true })
        const item = { exchange: '', routingKey: retryQueue(queue, delay), body: native.content, properties }
        void channel.send([{ item, settle }], giveUp.signal)
      })
      // What is wrong with this message says nothing about the next one.
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
    // The same connection of amqplib, which can do more than sources and publishers use.
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
  'Nacked messages cannot wait in the retry queues, and are held in the process: as many as prefetch stop the source until their delay is over. Declare the queue with retry: true, or give the user the permission to.'
