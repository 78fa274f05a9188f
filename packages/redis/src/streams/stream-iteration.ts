import { AckordError, exponentialBackoff, idle, isAckordError, type Logger, Message, type RawMessage, type Runtime } from '@ackord/core'
import { type IterationOwner, PushedMessages, type Receiver } from '@ackord/core/broker'
import { ackingOf, deadLetterForms, isRetryable, logFields } from '@ackord/core/internal'
import { type StreamContent, type StreamEntry, unreadContent, writeEntry } from './entries/stream-entry.ts'
import type { HeldEntry, Reading } from './shards/shard.ts'

export interface IterationSettings {
  readonly runtime: Runtime
  readonly logger: Logger
  readonly group: string
  readonly read: (entry: StreamEntry) => StreamContent
  readonly maxDeliveries: number
  readonly receive: Receiver
  /** The dead-letter streams, by the streams of the entries; `undefined` if rejected entries go elsewhere, which the receiver does. */
  readonly letterStreams: ReadonlyMap<string, string | undefined> | undefined
  readonly trim: { readonly interval: number; readonly run: () => Promise<unknown> } | undefined
  readonly open: (offer: (entries: readonly HeldEntry[]) => void) => Reading
}

const refusedDelay = exponentialBackoff()

/** One iteration, which is a consumer of its own. It reads from the first `next()` on. */
export class StreamIteration {
  readonly #settings: IterationSettings
  readonly #owner: IterationOwner
  #reading: Reading | undefined
  readonly messages: PushedMessages<HeldEntry>

  constructor(settings: IterationSettings, signal: AbortSignal, owner: IterationOwner) {
    this.#settings = settings
    this.#owner = owner
    this.messages = new PushedMessages<HeldEntry>(
      {
        start: () => this.#start(),
        messageOf: (entry) => this.#take(entry),
        leave: async () => await this.#reading?.leave(),
        isDisposed: () => owner.disposed,
      },
      signal,
    )
  }

  /** Ends the iteration and releases yielded messages that are not settled. Idempotent. */
  async dispose(): Promise<void> {
    await this.messages.end()
    await this.#reading?.dispose()
  }

  #start(): void {
    this.#owner.started(this)
    const reading = this.#settings.open((entries) => this.messages.push(...entries))
    this.#reading = reading
    reading.run().catch((error: unknown) => this.messages.fail(error))
    void reading.finished.then(() => this.#owner.finished(this))
    void this.#trim()
  }

  async #trim(): Promise<void> {
    const { trim, runtime, logger } = this.#settings
    if (trim === undefined) return
    while (await idle(runtime, trim.interval, this.messages.ending)) {
      try {
        await trim.run()
      } catch (err) {
        logger.warn({ err }, 'Acked entries could not be trimmed. The source tries again.')
      }
    }
  }

  #take(entry: HeldEntry): RawMessage | undefined {
    if (!entry.shard.holds(entry)) return undefined
    entry.yielded = true
    return this.#messageOf(entry)
  }

  /** `undefined` for an entry that is rejected here, without being handled. */
  #messageOf(entry: HeldEntry): RawMessage | undefined {
    const { read, maxDeliveries, logger, group } = this.#settings
    const { stream, id, deliveries } = entry
    let refused: { readonly content: StreamContent; readonly error: AckordError }
    try {
      const content = read(entry)
      if (deliveries <= maxDeliveries) return this.#message(entry, content)
      const text = `Entry ${id} of stream '${stream}' was delivered ${deliveries} times; the maxDeliveries of the source is ${maxDeliveries}. It may be crashing its consumers.`
      refused = { content, error: new AckordError('ACKORD_MAX_DELIVERIES', text, { retryable: false }) }
    } catch (cause) {
      const text = `Entry ${id} of stream '${stream}' cannot be read.`
      refused = { content: unreadContent(entry), error: new AckordError('ACKORD_INVALID_MESSAGE', text, { retryable: false, cause }) }
    }
    const message = this.#message(entry, refused.content)
    const fields = { err: refused.error, ...logFields(message), deadLetter: ackingOf(message)?.deadLetter, group, entry: id }
    logger.error(fields, 'An entry is rejected without being handled.')
    // If the server refuses it, the entry is delivered again, and rejected again.
    void message.reject(refused.error)
    return undefined
  }

  #message(entry: HeldEntry, content: StreamContent): RawMessage {
    const { receive, letterStreams } = this.#settings
    const { shard, stream: origin, deliveries } = entry
    const ack = () => shard.ack(entry)
    const nack = (error: unknown, { retryAfter = 0 }: { readonly retryAfter?: number | undefined }) =>
      shard.nack(entry, retryAfter, countsAsDelivery(error))
    if (letterStreams === undefined) return receive({ ...content, deliveryCount: deliveries, origin, ack, nack })
    const deadLetter = letterStreams.get(origin)
    const message: RawMessage = new Message(content.data, content.attributes, {
      deliveryCount: deliveries,
      origin,
      acking: { ack, nack, reject: (error) => this.#reject(entry, message, error), deadLetter },
    })
    return message
  }

  /** Tries the forms of a dead letter until one fits: some attributes cannot be written into an entry. */
  async #reject(entry: HeldEntry, message: RawMessage, error: unknown): Promise<void> {
    const { runtime, logger, group } = this.#settings
    const { shard, stream, id, deliveries } = entry
    const origin = {
      deadletterdestination: stream,
      deadletterstream: stream,
      deadlettergroup: group,
      deadletterentry: id,
      deadletterdeliveries: deliveries,
    }
    let refusal: unknown
    for (const letter of deadLetterForms(message, error, runtime, origin)) {
      try {
        await shard.reject(entry, writeEntry(letter))
        return
      } catch (failure) {
        if (!shard.holds(entry)) throw failure
        // The first refusal says the most about the entry.
        refusal ??= failure
        if (isRetryable(failure)) break
      }
    }
    const retryAfter = refusedDelay(deliveries, runtime.random)
    const fields = { err: refusal, ...logFields(message), deadLetter: ackingOf(message)?.deadLetter, entry: id, retryAfter }
    logger.error(fields, 'A rejected entry could not be added to the dead-letter stream. It is delivered again.')
    await shard.nack(entry, retryAfter, true)
    throw refusal
  }
}

const untried = ['ACKORD_SHUTDOWN', 'ACKORD_KEY_NACKED', 'ACKORD_TENANT_LIMITED'] as const

/** A delivery that was released untried does not count towards limits. */
function countsAsDelivery(error: unknown): boolean {
  return !untried.some((code) => isAckordError(error, code))
}
