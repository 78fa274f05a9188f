import { type Attributes, idle, type Logger, type RawMessage, type Runtime } from '@ackord/core'
import { type Delivery, KeyQueues, leaseLostError, rejectUnreadable, type SourceSession, sourceDisposedError } from '@ackord/core/broker'
import { settledWithin, startStopwatch, WakeSignal } from '@ackord/core/internal'
import type { SqsReceivedMessage } from '../client.ts'
import { isFifo } from '../fifo.ts'
import { type HeldMessage, visibilityOf } from './held-message.ts'
import type { QueueClient } from './queue-client.ts'
import { foreignAttributes, type ReadMessage, readMessage, type SqsMessage, sqsMessage } from './read-message.ts'
import { RefusedEntry } from './request-batcher.ts'
import type { UnseenDeliveries } from './unseen-deliveries.ts'
import { VisibilityExtension } from './visibility-extension.ts'

export interface SessionSettings {
  readonly client: QueueClient
  readonly queue: string
  readonly prefetch: number
  readonly waitTime: number
  readonly visibilityTimeout: number
  readonly attributes: ((native: SqsMessage) => Attributes) | undefined
  readonly unseen: UnseenDeliveries
  readonly runtime: Runtime
  readonly logger: Logger
  readonly receive: (delivery: Delivery) => RawMessage
}

// Milliseconds that leaving waits for a receive that is under way. It ends at once if there are messages; if there are none, aborting it loses none.
const leaveGrace = 1000

/**
 * One stretch of reading a queue. Messages are received while fewer than `prefetch` are held. With a FIFO queue
 * one message of a group is handed out at a time; SQS delivers no further ones of the group while one is held.
 */
export class SqsSession implements SourceSession {
  readonly ended: Promise<unknown>
  readonly closed: Promise<void>
  readonly #settings: SessionSettings
  readonly #push: (held: HeldMessage) => void
  readonly #held = new Map<string, HeldMessage>()
  readonly #groups = new KeyQueues<HeldMessage>()
  readonly #leaving = new AbortController()
  readonly #aborting = new AbortController()
  readonly #room: WakeSignal
  readonly #extension: VisibilityExtension
  #polling: Promise<void> = Promise.resolve()
  #left: Promise<void> | undefined
  #state: 'open' | 'left' | 'closed' = 'open'
  // Verdicts that SQS has not answered.
  #settling = 0
  #onEnded: (reason: unknown) => void = () => {}
  #onClosed: () => void = () => {}

  constructor(settings: SessionSettings, push: (held: HeldMessage) => void) {
    this.#settings = settings
    this.#push = push
    this.#room = new WakeSignal(settings.runtime)
    const { client, runtime, visibilityTimeout } = settings
    const held = () => this.#held.values()
    this.#extension = new VisibilityExtension({ client, runtime, visibilityTimeout, held, onLost: (...lost) => this.#onLost(...lost) })
    this.ended = new Promise((resolve) => {
      this.#onEnded = resolve
    })
    this.closed = new Promise((resolve) => {
      this.#onClosed = resolve
    })
  }

  /** The first receive does not wait for messages: it shows whether the queue can be read. */
  async start(): Promise<void> {
    const opening = this.#open()
    this.#polling = opening.catch(() => {})
    try {
      await opening
      this.#leaving.signal.throwIfAborted()
    } catch (error) {
      await this.close()
      throw error
    }
    this.#extension.start()
    this.#polling = this.#poll().catch((error: unknown) => this.#onEnded(error))
  }

  /** The message of a held one whose turn has come; `undefined` if it is not held any more, or if it cannot be read. The latter is rejected here, because no handler will see it. */
  messageOf(held: HeldMessage): RawMessage | undefined {
    const { queue, logger } = this.#settings
    if (this.#held.get(held.native.messageId) !== held) return undefined
    held.yielded = true
    try {
      return this.#message(held, this.#read(held.native))
    } catch (error) {
      const { messageId, body } = held.native
      const message = this.#message(held, { data: utf8.encode(body), attributes: foreignAttributes(held.native) })
      rejectUnreadable(message, `Message ${messageId} of queue '${queue}'`, error, { logger, fields: { queue } })
      return undefined
    }
  }

  leave(): Promise<void> {
    this.#left ??= this.#leave()
    return this.#left
  }

  async close(): Promise<void> {
    this.#state = 'closed'
    await this.leave()
    await this.#release([...this.#held.values()].filter(({ settling }) => !settling))
    this.#closeIfDone()
  }

  async #open(): Promise<void> {
    await this.#settings.client.open(this.#aborting.signal)
    this.#leaving.signal.throwIfAborted()
    await this.#receive(0)
  }

  #read(native: SqsMessage): ReadMessage {
    const { attributes } = this.#settings
    return attributes === undefined ? readMessage(native) : { data: utf8.encode(native.body), attributes: attributes(native) }
  }

  #message(held: HeldMessage, content: ReadMessage): RawMessage {
    const { receive, queue, unseen } = this.#settings
    const { messageId, receiveCount } = held.native
    return receive({
      ...content,
      deliveryCount: receiveCount === undefined ? undefined : Math.max(1, receiveCount - unseen.of(messageId)),
      origin: queue,
      ack: () => this.#ack(held),
      nack: (_error, { retryAfter = 0 }) => this.#nack(held, retryAfter),
    })
  }

  /** If it fails, SQS delivers the message again before the later ones of its group: those that came with it are returned. */
  async #ack(held: HeldMessage): Promise<void> {
    this.#checkOpen(held)
    const { client, unseen } = this.#settings
    try {
      await this.#settle(held, 'deleted', () => client.delete(held.handle))
      unseen.forget(held.native.messageId)
    } catch (error) {
      this.#remove(held)
      void this.#makeVisible(this.#removeFollowers(held))
      throw error
    } finally {
      this.#remove(held)
      this.#offerNext(held)
      this.#closeIfDone()
    }
  }

  /** SQS delivers no other message of a group while this one is not visible. The later ones that came with it are returned, or they would be handled before it. */
  async #nack(held: HeldMessage, delay: number): Promise<void> {
    this.#checkOpen(held)
    // Before the request: SQS may deliver the message again before it answers.
    this.#remove(held)
    const returning = this.#makeVisible(this.#removeFollowers(held))
    try {
      await this.#settle(held, 'returned', () => this.#settings.client.changeVisibility(held.handle, visibilityOf(held, delay)))
    } finally {
      await returning
      this.#closeIfDone()
    }
  }

  #checkOpen({ native }: HeldMessage): void {
    if (this.#state === 'closed') throw sourceDisposedError(`message ${native.messageId} of queue '${this.#settings.queue}'`)
  }

  /** Sends a verdict. Resolves when SQS has accepted it. */
  async #settle(held: HeldMessage, verdict: string, send: () => Promise<void>): Promise<void> {
    const name = `Message ${held.native.messageId} of queue '${this.#settings.queue}'`
    held.settling = true
    this.#settling += 1
    try {
      // An extension that is under way would be refused after a deletion, and would undo a delay.
      await held.extending
      await send()
    } catch (error) {
      const isExpired = error instanceof RefusedEntry && error.senderFault
      const reason = isExpired ? 'its visibility timeout may be over' : 'SQS did not answer, or reported an error'
      throw leaseLostError(`${name} was not ${verdict}: ${reason}`, error)
    } finally {
      this.#settling -= 1
    }
    // SQS confirms a deletion whose message it has delivered to another consumer.
    if (held.lost !== undefined) throw leaseLostError(`${name} was ${verdict} after its visibility timeout was over`, held.lost)
  }

  async #poll(): Promise<void> {
    const { prefetch, waitTime } = this.#settings
    while (!this.#leaving.signal.aborted) {
      if (this.#held.size < prefetch) await this.#receive(waitTime)
      else await this.#room.wait(Number.POSITIVE_INFINITY, this.#leaving.signal)
    }
  }

  async #receive(waitTime: number): Promise<void> {
    const { client, prefetch, visibilityTimeout, runtime } = this.#settings
    const limits = { count: prefetch - this.#held.size, waitTime, visibilitySeconds: Math.ceil(visibilityTimeout / 1000) }
    // From before the request: time that is counted too early shortens the last extension, time that is counted too late makes it fail.
    const age = startStopwatch(runtime)
    const received = await client.receive(limits, this.#aborting.signal)
    for (const each of received) this.#accept(each, age)
    // Without long polling an empty queue would be asked without a pause.
    if (received.length === 0 && waitTime < 1000) await idle(runtime, 10, this.#leaving.signal)
  }

  #accept(received: SqsReceivedMessage, age: () => number): void {
    const { MessageId: id, ReceiptHandle: handle } = received
    if (id === undefined || handle === undefined) return
    const known = this.#held.get(id)
    if (known !== undefined) {
      // SQS has delivered it again: only the latest handle counts. Its handler runs, or it waits for its turn.
      Object.assign(known, { handle, age, lost: undefined })
      return
    }
    const { queue } = this.#settings
    const native = sqsMessage(queue, received)
    // A standard queue may have groups as well, which say nothing about order.
    const group = isFifo(queue) ? native.groupId : undefined
    const state = { yielded: false, settling: false, lost: undefined, extending: undefined }
    const held: HeldMessage = { session: this, native, group, handle, age, ...state }
    this.#held.set(id, held)
    if (group === undefined || this.#groups.add(group, held)) this.#push(held)
  }

  #remove(held: HeldMessage): void {
    if (this.#held.get(held.native.messageId) === held) this.#held.delete(held.native.messageId)
    this.#room.notify()
  }

  #offerNext({ group }: HeldMessage): void {
    const next = group === undefined ? undefined : this.#groups.next(group)
    if (next !== undefined && !this.#leaving.signal.aborted) this.#push(next)
  }

  /** The messages of the group that wait behind the one under way, the last one first. The group is free then. */
  #removeFollowers({ group }: HeldMessage): HeldMessage[] {
    const followers: HeldMessage[] = []
    if (group === undefined) return followers
    for (let next = this.#groups.next(group); next !== undefined; next = this.#groups.next(group)) {
      this.#remove(next)
      followers.unshift(next)
    }
    return followers
  }

  /** SQS has taken the message back. If a handler has it, its verdict rejects; otherwise the message is forgotten, and the later ones of its group are returned. */
  #onLost(held: HeldMessage, reason: unknown): void {
    held.lost = reason
    const { group, native, yielded } = held
    if (yielded || this.#held.get(native.messageId) !== held) return
    const isWaiting = [...this.#groups.waiting()].includes(held)
    const followers = this.#removeFollowers(held).filter((each) => each !== held)
    // Another message of the group is still under way.
    if (isWaiting && group !== undefined) this.#groups.take(group)
    this.#remove(held)
    this.#settings.unseen.add(native.messageId)
    void this.#makeVisible(followers)
    this.#closeIfDone()
  }

  async #leave(): Promise<void> {
    const { runtime } = this.#settings
    this.#leaving.abort()
    this.#onEnded(undefined)
    await settledWithin(runtime, leaveGrace, this.#polling)
    this.#aborting.abort()
    await this.#polling
    this.#groups.removeWaiting()
    await this.#release([...this.#held.values()].filter(({ yielded }) => !yielded))
    if (this.#state === 'open') this.#state = 'left'
    this.#closeIfDone()
  }

  /** Forgets the messages, and returns them to SQS. Never rejects. */
  async #release(released: readonly HeldMessage[]): Promise<void> {
    for (const held of released) this.#remove(held)
    // The last one first, so that a group never has a later message available before an earlier one.
    await this.#makeVisible(released.some(({ group }) => group !== undefined) ? released.toReversed() : released)
  }

  /** Returns messages to SQS. Never rejects: what cannot be returned comes again after its visibility timeout. */
  async #makeVisible(messages: readonly HeldMessage[]): Promise<void> {
    const { client, unseen } = this.#settings
    this.#settling += 1
    for (const { native, yielded } of messages) if (!yielded) unseen.add(native.messageId)
    // An extension that is under way would hide the message again.
    await Promise.all(messages.map(({ extending }) => extending))
    await Promise.all(messages.map(({ handle }) => client.changeVisibility(handle, 0).catch(() => {})))
    this.#settling -= 1
    this.#closeIfDone()
  }

  #closeIfDone(): void {
    if (this.#state === 'open' || this.#held.size > 0 || this.#settling > 0) return
    this.#extension.stop()
    this.#onClosed()
  }
}

const utf8 = new TextEncoder()
