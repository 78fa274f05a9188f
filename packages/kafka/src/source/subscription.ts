import { AckordError, type Attributes, type Backoff, type Delivery, type RawMessage } from '@ackord/core'
import { abortable, FailurePause, type IterationOwner, PushedMessages } from '@ackord/core/internal'
import type { KafkaFault, KafkaMessage } from '../port.ts'
import { ConsumerSession, type SessionSettings } from './consumer-session.ts'
import type { HeldRecord } from './partition-window.ts'
import { bytesOf, foreignAttributes, readRecord } from './read-record.ts'

export interface SubscriptionSettings extends SessionSettings {
  readonly attributes: ((native: KafkaMessage) => Attributes) | undefined
  readonly backoff: Backoff
  readonly receive: (delivery: Delivery) => RawMessage
}

// A consumer that lived this long, in milliseconds, was well: its end is a new failure, not the next one in a row.
const steady = 10_000

/** One iteration: a member of the group from the first `next()` on, and another one when that is lost. */
export class Subscription {
  readonly messages: PushedMessages<HeldRecord>
  readonly #settings: SubscriptionSettings
  readonly #owner: IterationOwner
  readonly #sessions = new Set<ConsumerSession>()

  constructor(settings: SubscriptionSettings, signal: AbortSignal, owner: IterationOwner) {
    this.#settings = settings
    this.#owner = owner
    this.messages = new PushedMessages<HeldRecord>(
      {
        start: () => this.#start(),
        messageOf: (record) => (record.window.handOut(record) ? this.#receive(record) : undefined),
        leave: () => this.#leave(),
        isDisposed: () => owner.disposed,
      },
      signal,
    )
  }

  /** Ends the iteration and gives back what was yielded and is not settled. Idempotent. */
  async dispose(): Promise<void> {
    const closing = [...this.#sessions].map((session) => session.close('disposed'))
    await Promise.all([...closing, this.messages.end()])
  }

  #start(): void {
    this.#owner.started(this)
    this.#run().catch((error: unknown) => this.messages.fail(error))
  }

  async #run(): Promise<void> {
    const { kafka, topics, group, runtime, backoff, logger } = this.#settings
    const signal = this.messages.ending
    let before = false
    let down = false
    const pause = new FailurePause({ backoff, runtime })
    while (!signal.aborted) {
      let reason: unknown
      try {
        const session = await this.#open()
        const openedAt = runtime.monotonic()
        if (down) logger.info({ topics, group }, 'The topics are consumed again.')
        down = false
        reason = await session.ended
        if (runtime.monotonic() - openedAt >= steady) {
          before = true
          pause.succeeded()
        }
      } catch (error) {
        reason = error
      }
      if (signal.aborted) return
      const fault = kafka.faultOf(reason)
      if (endsSource(fault, { before })) throw openingFailed(topics, fault, reason)
      if (!down)
        logger.warn(
          { err: reason, topics, group },
          'The topics are not consumed: Kafka could not be reached, or was lost. It is tried again.',
        )
      down = true
      await pause.failed(signal)
    }
  }

  /** Kafka may be away for a long time; an abort does not wait for it. */
  async #open(): Promise<ConsumerSession> {
    const session = new ConsumerSession(this.#settings, (record) => this.messages.push(record))
    this.#sessions.add(session)
    void session.closed.then(() => {
      this.#sessions.delete(session)
      this.#finishIfDone()
    })
    await abortable(session.start(), this.messages.ending)
    return session
  }

  /** `undefined` for a message that cannot be read; it is rejected here, because nobody else could. */
  #receive(record: HeldRecord): RawMessage | undefined {
    const { attributes, logger } = this.#settings
    const { native } = record
    try {
      if (attributes === undefined) return this.#message(record, readRecord(native))
      return this.#message(record, { data: bytesOf(native), attributes: attributes(native) })
    } catch (cause) {
      const { topic, partition, offset } = native
      const text = `The message at offset ${offset} of partition ${partition} of topic '${topic}' cannot be read.`
      const error = new AckordError('ACKORD_INVALID_MESSAGE', text, { retryable: false, cause })
      logger.error({ err: error, topic }, 'A message cannot be read and is rejected.')
      // What the dead letter does not take is delivered again, and rejected again.
      void this.#message(record, { data: bytesOf(native), attributes: foreignAttributes(native) }).reject(error)
      return undefined
    }
  }

  #message(record: HeldRecord, content: { readonly data: Uint8Array; readonly attributes: Attributes }): RawMessage {
    return this.#settings.receive({
      ...content,
      deliveryCount: record.deliveries,
      ack: () => record.window.ack(record),
      nack: (_error, { retryAfter = 0 }) => record.window.nack(record, retryAfter),
      park: () => this.#park(record),
    })
  }

  /** Kafka keeps records whether they were handled or not. */
  #park(record: HeldRecord): boolean {
    const { topic, partition, offset } = record.native
    record.window.ack(record)
    this.#settings.logger.error({ topic, partition, offset }, 'A record is skipped; it stays in the topic at this offset.')
    return true
  }

  async #leave(): Promise<void> {
    // One that has nothing in hand leaves the group before this resolves, so that others get its partitions.
    await Promise.all([...this.#sessions].map((session) => session.leave()))
    this.#finishIfDone()
  }

  #finishIfDone(): void {
    if (this.messages.ending.aborted && this.#sessions.size === 0) this.#owner.finished(this)
  }
}

/**
 * Whether an error ends the source. At first a missing topic does, because it is most likely a mistake in the set-up; later on it may be made
 * anew. What we are not allowed to do is not tried again at any time.
 */
function endsSource(fault: KafkaFault, options: { readonly before: boolean }): boolean {
  return fault === 'access' || (fault === 'topic' && !options.before)
}

function openingFailed(topics: readonly string[], fault: KafkaFault, cause: unknown): AckordError {
  const names = topics.map((topic) => `'${topic}'`).join(', ')
  const advice =
    fault === 'topic'
      ? 'a topic does not exist. Create it.'
      : 'the user is not allowed to, or could not log in. Check its name, password and permissions.'
  return new AckordError('ACKORD_SOURCE_FAILED', `${names} cannot be consumed: ${advice}`, { cause })
}
