import { AckordError, type Attributes, type Backoff, type Logger, type RawMessage, type Runtime } from '@ackord/core'
import { type Delivery, type FailureState, parseAddress, rejectUnreadable, type SourceDriver } from '@ackord/core/broker'
import type { KafkaFault, KafkaMessage } from '../port.ts'
import { ConsumerSession, type SessionSettings } from './consumer-session.ts'
import type { HeldRecord } from './partition-window.ts'
import { bytesOf, foreignAttributes, readRecord } from './read-record.ts'

export interface SubscriptionSettings extends SessionSettings {
  readonly attributes: ((native: KafkaMessage) => Attributes) | undefined
  readonly backoff: Backoff
  readonly receive: (delivery: Delivery) => RawMessage
}

/** One iteration: a member of the group from the first `next()` on, and another member when that one is lost. */
export class Subscription implements SourceDriver<HeldRecord> {
  readonly system = 'kafka'
  readonly backoff: Backoff
  readonly runtime: Runtime
  readonly logger: Logger
  readonly fields: { readonly topics: readonly string[]; readonly group: string }
  readonly lost = 'The topics are not consumed: Kafka could not be reached, or was lost. It is tried again.'
  readonly restored = 'The topics are consumed again.'
  readonly #settings: SubscriptionSettings

  constructor(settings: SubscriptionSettings) {
    this.#settings = settings
    this.backoff = settings.backoff
    this.runtime = settings.runtime
    this.logger = settings.logger
    this.fields = { topics: settings.topics, group: settings.group }
  }

  get serverAddress(): string | undefined {
    return parseAddress(this.#settings.kafka.broker).serverAddress
  }

  get serverPort(): number | undefined {
    return parseAddress(this.#settings.kafka.broker).serverPort
  }

  open(push: (record: HeldRecord) => void): ConsumerSession {
    return new ConsumerSession(this.#settings, push)
  }

  /** `undefined` for a record that is not to be handed out now, or that cannot be read. The latter is rejected here, because no handler will see it. */
  messageOf(record: HeldRecord): RawMessage | undefined {
    if (!record.window.handOut(record)) return undefined
    const { attributes, logger } = this.#settings
    const { native } = record
    try {
      if (attributes === undefined) return this.#message(record, readRecord(native))
      return this.#message(record, { data: bytesOf(native), attributes: attributes(native) })
    } catch (cause) {
      const { topic, partition, offset } = native
      const message = this.#message(record, { data: bytesOf(native), attributes: foreignAttributes(native) })
      const name = `The message at offset ${offset} of partition ${partition} of topic '${topic}'`
      rejectUnreadable(message, name, cause, { logger, fields: { topic } })
      return undefined
    }
  }

  fatalError(reason: unknown, state: FailureState): AckordError | undefined {
    const { kafka, topics } = this.#settings
    const fault = kafka.faultOf(reason)
    return endsSource(fault, state) ? openingFailed(topics, fault, reason) : undefined
  }

  #message(record: HeldRecord, content: { readonly data: Uint8Array; readonly attributes: Attributes }): RawMessage {
    return this.#settings.receive({
      ...content,
      deliveryCount: record.deliveries,
      origin: record.native.topic,
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
}

/**
 * Whether an error ends the source. At first a missing topic does, because it is most likely a mistake in the configuration; later on it may be created again. Missing
 * permissions end it at any time. KafkaJS reports both after it has started, so a consumer counts as working only after it has run for a while.
 */
function endsSource(fault: KafkaFault, { wasSteady }: FailureState): boolean {
  return fault === 'access' || (fault === 'topic' && !wasSteady)
}

function openingFailed(topics: readonly string[], fault: KafkaFault, cause: unknown): AckordError {
  const names = topics.map((topic) => `'${topic}'`).join(', ')
  const advice =
    fault === 'topic'
      ? 'a topic does not exist. Create it.'
      : 'the user is not allowed to, or could not log in. Check its name, password and permissions.'
  return new AckordError('ACKORD_SOURCE_FAILED', `${names} cannot be consumed: ${advice}`, { cause })
}
