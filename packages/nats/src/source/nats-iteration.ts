import { type Attributes, type Backoff, idle, type Logger, type RawMessage, type Runtime } from '@ackord/core'
import {
  type Connection,
  type Delivery,
  type IterationOwner,
  PushedMessages,
  type ReconnectOptions,
  reconnect,
  rejectUnreadable,
  type SourceIteration,
} from '@ackord/core/broker'
import { abortable, answerTimeout, settledWithin } from '@ackord/core/internal'
import type { NatsConnection } from '../client.ts'
import type { ConnectionWatch } from '../connection-watch.ts'
import { type ConsumerInfo, type JetStreamApi, nanoseconds } from '../jetstream-api.ts'
import { declareTopology, type Topology } from '../topology.ts'
import { type HeldMessage, HeldMessages } from './held-messages.ts'
import { OrderedMessages } from './ordered-messages.ts'
import { PullInbox } from './pull-inbox.ts'
import { foreignAttributes, type NatsStreamMessage, type ReadMessage, readMessage, type StreamDelivery } from './read-message.ts'
import { connectionOver, endsSource, openingFailed, UnfitConsumer } from './source-errors.ts'

export interface IterationSettings {
  readonly connection: NatsConnection
  readonly watch: ConnectionWatch
  readonly api: JetStreamApi
  readonly stream: string
  readonly consumer: string
  readonly declare: Topology | undefined
  readonly prefetch: number
  readonly order: 'none' | 'perKey' | 'perSubject'
  readonly inboxPrefix: string
  readonly attributes: ((native: NatsStreamMessage) => Attributes) | undefined
  readonly backoff: Backoff
  readonly runtime: Runtime
  readonly logger: Logger
  readonly receive: (delivery: Delivery) => RawMessage
}

// Milliseconds between two checks of a consumer that another source reads, and of messages that have not arrived yet.
const standbyPause = 1000
const gatePause = 50

/** One iteration: it requests messages from the first `next()` on, and again after the connection was lost. */
export class NatsIteration implements SourceIteration {
  readonly messages: PushedMessages<HeldMessage>
  readonly #settings: IterationSettings
  readonly #owner: IterationOwner
  readonly #held: HeldMessages
  readonly #ordered: OrderedMessages | undefined
  #inbox: PullInbox | undefined
  // Whether the consumer has existed. A source that reads in order may know that for hours before its turn comes.
  #wasPrepared = false
  #maxAckPending = 0
  #maxBatch = Number.POSITIVE_INFINITY
  #maxExpires = Number.POSITIVE_INFINITY
  #unwatch: () => void = () => {}

  constructor(settings: IterationSettings, signal: AbortSignal, owner: IterationOwner) {
    const { connection, watch, runtime, order } = settings
    this.#settings = settings
    this.#owner = owner
    this.messages = new PushedMessages<HeldMessage>(
      {
        start: () => this.#start(),
        messageOf: (held) => this.#messageOf(held),
        leave: () => this.#leave(),
        isDisposed: () => owner.disposed,
      },
      signal,
    )
    this.#held = new HeldMessages({ connection, watch, runtime, onFreed: (held) => this.#freed(held) })
    if (order !== 'none') {
      this.#ordered = new OrderedMessages(
        (held) => this.#keyOf(held),
        (held) => this.messages.push(held),
      )
    }
  }

  /** Ends the iteration and returns unsettled messages to NATS. Idempotent. */
  async dispose(): Promise<void> {
    const left = this.messages.end()
    this.#held.refuse()
    await left
    for (const held of [...this.#held]) this.#held.giveBack(held)
    await this.#flush()
  }

  #start(): void {
    this.#owner.started(this)
    const { watch } = this.#settings
    this.#unwatch = watch.onChange(() => {
      if (watch.isUp) return
      this.#ordered?.close()
      this.#inbox?.end(new Error('The connection to NATS was lost'))
    })
    reconnect(() => this.#connect(), this.#reconnectOptions(), this.messages.ending).catch((error: unknown) => this.messages.fail(error))
  }

  #reconnectOptions(): ReconnectOptions {
    const { stream, consumer, watch, runtime, backoff, logger } = this.#settings
    return {
      runtime,
      backoff,
      logger,
      fields: { stream, consumer },
      lost: 'The consumer is not read: the connection was lost, or it is gone. It is tried again.',
      restored: 'The consumer is read again.',
      fatalError: (reason, { opening }) => {
        if (watch.over !== undefined) return connectionOver(stream, consumer, watch.over.cause ?? reason)
        return opening && endsSource(reason, { wasPrepared: this.#wasPrepared }) ? openingFailed(stream, consumer, reason) : undefined
      },
    }
  }

  async #connect(): Promise<Connection> {
    const { watch } = this.#settings
    const signal = this.messages.ending
    try {
      await watch.settled(signal)
      signal.throwIfAborted()
      if (watch.over !== undefined) throw new Error('The connection to NATS is closed')
      await this.#prepare(signal)
      this.#wasPrepared = true
      const inbox = this.#ordered === undefined ? this.#open() : await this.#openAlone(this.#ordered, signal)
      return { ended: this.#left(inbox) }
    } catch (error) {
      await this.#inbox?.leave()
      throw error
    }
  }

  /** Resolves, with the reason, when the inbox has ended and all that NATS had sent to it has been accepted. */
  async #left(inbox: PullInbox): Promise<unknown> {
    const reason = await inbox.ended
    await inbox.leave()
    return reason
  }

  /** Creates what is declared, and reads the consumer's settings. */
  async #prepare(signal: AbortSignal): Promise<void> {
    const { api, stream, consumer, declare } = this.#settings
    if (declare !== undefined) await abortable(declareTopology(api, stream, consumer, declare), signal)
    const { config } = await this.#consumerInfo(signal)
    const { ack_policy, deliver_subject, ack_wait = 30_000 * nanoseconds, max_ack_pending = 0, max_batch = 0, max_expires = 0 } = config
    if (ack_policy !== 'explicit') throw new UnfitConsumer(`its ack_policy is '${ack_policy}', and must be 'explicit'`)
    if (deliver_subject !== undefined) throw new UnfitConsumer('it has a deliver_subject, and must be one that messages are pulled from')
    if (this.#ordered !== undefined && max_ack_pending < 1) throw new UnfitConsumer('it has no max_ack_pending, which order needs')
    if (this.#ordered !== undefined && max_batch > 0 && max_batch < 2 * max_ack_pending) {
      throw new UnfitConsumer(`its max_batch is ${max_batch}, and order needs twice its max_ack_pending, which is ${max_ack_pending}`)
    }
    this.#maxAckPending = max_ack_pending
    this.#maxBatch = max_batch > 0 ? max_batch : Number.POSITIVE_INFINITY
    this.#maxExpires = max_expires > 0 ? Math.floor(max_expires / nanoseconds) : Number.POSITIVE_INFINITY
    this.#held.ackWait = ack_wait / nanoseconds
    this.#held.beat()
  }

  async #consumerInfo(signal: AbortSignal): Promise<ConsumerInfo> {
    const { api, stream, consumer } = this.#settings
    return await abortable(api.consumerInfo(stream, consumer), signal)
  }

  #open(): PullInbox {
    const { prefetch } = this.#settings
    const isOrdered = this.#ordered !== undefined
    const inbox = new PullInbox({
      ...this.#settings,
      accept: (delivery) => this.#accept(delivery),
      // With order there are always more requests than JetStream may answer: the waiting ones show other sources that the consumer is being read.
      wanted: () => (isOrdered ? 2 * this.#maxAckPending : prefetch) - this.#held.size,
      always: isOrdered,
      maxBatch: this.#maxBatch,
      maxExpires: this.#maxExpires,
    })
    this.#inbox = inbox
    inbox.open()
    return inbox
  }

  /**
   * Order needs one reader, which JetStream did not ensure before 2.11. So a source that finds requests of another one waits, two sources that begin at the same time withdraw, and
   * nothing is handed out before all unsettled messages of earlier readers have arrived. A message that was delivered to another source nevertheless is missing in
   * the consumer's count of deliveries, and nothing behind it is handed out.
   */
  async #openAlone(ordered: OrderedMessages, signal: AbortSignal): Promise<PullInbox> {
    const { runtime } = this.#settings
    ordered.close()
    this.#returnWaiting()
    for (;;) {
      await this.#untilFree(signal)
      const inbox = this.#open()
      if (await this.#isAlone(inbox, ordered, signal)) return inbox
      ordered.close()
      await inbox.leave()
      this.#returnWaiting()
      await idle(runtime, standbyPause * runtime.random(), signal)
    }
  }

  async #untilFree(signal: AbortSignal): Promise<void> {
    const { stream, consumer, runtime, logger } = this.#settings
    let isLogged = false
    for (let free = 0; free < 2; ) {
      const { num_waiting } = await this.#consumerInfo(signal)
      free = num_waiting === 0 ? free + 1 : 0
      if (free > 0) continue
      if (!isLogged) logger.info({ stream, consumer }, 'Another source reads the consumer in order; this one waits until it has left.')
      isLogged = true
      await idle(runtime, standbyPause, signal)
    }
  }

  /** Resolves when all unsettled messages have arrived: `true` and the queues are open, or `false` if another source requests messages. Throws if the inbox ends before. */
  async #isAlone(inbox: PullInbox, ordered: OrderedMessages, signal: AbortSignal): Promise<boolean> {
    for (let pause = gatePause; ; pause = Math.min(pause * 2, standbyPause)) {
      const { num_waiting, num_ack_pending, delivered } = await this.#consumerInfo(signal)
      if (inbox.hasEnded) throw await inbox.ended
      if (num_waiting > inbox.requests) return false
      if (num_ack_pending <= this.#held.size) return ordered.open(delivered.consumer_seq)
      await idle(this.#settings.runtime, pause, signal)
    }
  }

  #accept(delivery: StreamDelivery): void {
    if (this.#ordered?.follows(delivery.consumerSequence) === false) this.#onInterference(this.#ordered)
    const held = this.#held.add(delivery)
    if (held === undefined) return
    // Messages that arrive while the iteration is being left are returned with the rest.
    if (this.messages.ending.aborted) return
    if (this.#ordered === undefined) this.messages.push(held)
    else this.#ordered.add(held)
  }

  /** Another source received a message: nothing is handed out until that message is settled, or has arrived here. */
  #onInterference(ordered: OrderedMessages): void {
    ordered.close()
    this.#inbox?.end(new Error('Another source requests messages of the consumer'))
  }

  /** `undefined` for a message that is not held any more, or that cannot be read. The latter is rejected here, because no handler will see it. */
  #messageOf(held: HeldMessage): RawMessage | undefined {
    const { stream, logger } = this.#settings
    if (!this.#held.has(held) || this.#ordered?.isOpen === false) return undefined
    held.yielded = true
    const content = this.#read(held)
    if (!('error' in content)) return this.#message(held, content)
    const message = this.#message(held, { data: held.delivery.data, attributes: foreignAttributes(held.delivery) })
    rejectUnreadable(message, `Message ${held.delivery.sequence} of stream '${stream}'`, content.error, { logger, fields: { stream } })
    return undefined
  }

  #message(held: HeldMessage, content: ReadMessage): RawMessage {
    return this.#settings.receive({
      ...content,
      deliveryCount: held.deliveries,
      origin: held.delivery.subject,
      ack: () => this.#held.ack(held),
      nack: (_error, { retryAfter = 0 }) => this.#nack(held, retryAfter),
      terminate: () => this.#held.terminate(held),
      park: () => this.#park(held),
    })
  }

  /** A stream with `limits` retention keeps terminated messages; streams with other retention policies delete them. */
  async #park(held: HeldMessage): Promise<boolean> {
    const { api, stream, consumer, logger } = this.#settings
    const retention = await api.streamInfo(stream).then(
      ({ config }) => config['retention'] ?? 'limits',
      () => undefined,
    )
    if (retention !== 'limits') return false
    const { sequence } = held.delivery
    await this.#held.terminate(held)
    logger.error({ stream, consumer, sequence }, 'A message is terminated; it stays in the stream under this sequence.')
    return true
  }

  #read(held: HeldMessage): NonNullable<HeldMessage['content']> {
    const { attributes } = this.#settings
    const { delivery } = held
    if (held.content !== undefined) return held.content
    try {
      held.content =
        attributes === undefined ? readMessage(delivery) : { data: delivery.data, attributes: checkAttributes(attributes(delivery)) }
    } catch (error) {
      held.content = { error }
    }
    return held.content
  }

  #keyOf(held: HeldMessage): string | undefined {
    if (this.#settings.order === 'perSubject') return held.delivery.subject
    const content = this.#read(held)
    const key: unknown = 'error' in content ? undefined : content.attributes.partitionkey
    return typeof key === 'string' ? key : undefined
  }

  /** With order the message stays in this process: JetStream would deliver later messages of its key before it. */
  #nack(held: HeldMessage, delay: number): void | Promise<void> {
    if (this.messages.ending.aborted) return this.#nackAfterEnd(held, this.#ordered === undefined ? delay : 0)
    if (this.#ordered === undefined) return this.#held.nack(held, delay)
    if (!this.#ordered.isOpen) return this.#held.nack(held, 0)
    this.#held.checkHeld(held)
    held.hold = this.#settings.runtime.setTimeout(
      () => {
        held.hold = undefined
        held.yielded = false
        held.deliveries += 1
        if (this.#ordered?.isOpen === true && this.#held.has(held)) this.messages.push(held)
      },
      delay,
      { keepAlive: false },
    )
  }

  async #nackAfterEnd(held: HeldMessage, delay: number): Promise<void> {
    await this.#inbox?.leave()
    await this.#held.nack(held, delay)
  }

  #freed(held: HeldMessage): void {
    this.#ordered?.done(held)
    if (this.messages.ending.aborted) void this.#finishIfDone()
    else this.#inbox?.refill()
  }

  async #leave(): Promise<void> {
    this.#unwatch()
    this.#ordered?.close()
    await this.#inbox?.leave()
    this.#returnWaiting()
    await this.#flush()
    void this.#finishIfDone()
  }

  /** Returns all messages except those being handled. */
  #returnWaiting(): void {
    for (const held of [...this.#held]) if (!held.yielded || held.hold !== undefined) this.#held.giveBack(held)
  }

  /** Resolves when NATS has received the verdicts. */
  async #flush(): Promise<void> {
    const { connection, watch, runtime } = this.#settings
    this.#held.sendVerdicts()
    if (watch.isUp) await settledWithin(runtime, answerTimeout, connection.flush())
  }

  /** Not before NATS has received the last verdict: after disposing the source, the application may close the connection. */
  async #finishIfDone(): Promise<void> {
    if (this.#held.size > 0) return
    await this.messages.end()
    if (this.#held.size > 0) return
    await this.#flush()
    this.#owner.finished(this)
  }
}

/** A function in plain JavaScript may have returned anything. */
function checkAttributes(attributes: unknown): Attributes {
  if (typeof attributes === 'object' && attributes !== null) return attributes as Attributes
  throw new TypeError(`The source's option 'attributes' returned ${String(attributes)}, and must return an object.`)
}
