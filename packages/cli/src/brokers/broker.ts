import type { Publisher, Source } from '@ackord/core'

/** A broker that the command has connected to. */
export interface Broker {
  /** To be printed. */
  readonly address: string
  /** What the relay publishes with. */
  readonly publisher: Publisher
  /** Reads a topic that `createTopic` made, for the demo: alone, from its first message on. */
  source(topic: string): Source & AsyncDisposable
  /** Makes what a message to this name needs to be kept until it is read. */
  createTopic(topic: string): Promise<void>
  /**
   * The name under which a message is delivered once more by a topic that `createTopic` made: a broker that drops what it was sent before would otherwise keep the
   * demo from repeating one. Default: the topic's own.
   */
  repeatTopic?(topic: string): string
  /** With all that is in it. Idempotent. */
  removeTopic(topic: string): Promise<void>
  /** Why publishing to this name would fail, as far as the broker can be asked; `undefined` if nothing is known to be wrong. */
  problemOf?(destination: string): Promise<string | undefined>
  /** Closes the connection. */
  [Symbol.asyncDispose](): Promise<void>
}
