import type { Publisher, Source } from '@ackord/core'
import type { DeadLetters } from '@ackord/core/broker'

/** A broker that the command has connected to. */
export interface Broker {
  /** For output, without secrets. */
  readonly address: string
  /** The publisher that the relay uses. */
  readonly publisher: Publisher
  /** Reads a topic that `createTopic` created, for the demo: as the only consumer, from its first message on. */
  source(topic: string): Source & AsyncDisposable
  /** Creates what the broker needs to keep a message to this name until it is read. */
  createTopic(topic: string): Promise<void>
  /**
   * The name under which a topic created by `createTopic` delivers a message a second time: a broker that deduplicates would otherwise prevent the
   * demo from repeating one. Default: the topic's own name.
   */
  repeatTopic?(topic: string): string
  /** Deletes the topic and its messages. Idempotent. */
  removeTopic(topic: string): Promise<void>
  /** The letters of a dead-letter destination. */
  deadLetters?(from: string, options: LettersOptions): DeadLetters | Promise<DeadLetters>
  /** Why publishing to this name would fail, as far as the broker can tell; `undefined` if no problem is known. */
  problemOf?(destination: string): Promise<string | undefined>
  /** Closes the connection. */
  [Symbol.asyncDispose](): Promise<void>
}

export interface LettersOptions {
  /** The group whose offset marks the letters that are done; Kafka only. */
  readonly group: string
  /** The delivery limit of the queue; RabbitMQ only. Default: that of `rabbitmqDeadLetters()`. */
  readonly deliveryLimit?: number | 'none' | undefined
}
