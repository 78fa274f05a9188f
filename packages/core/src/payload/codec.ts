import type { RawMessage } from '../message/message.ts'

export interface CodecCallOptions {
  /** Aborted when the `codecTimeout` is over, or the shutdown of the router is forced. */
  readonly signal: AbortSignal
}

/**
 * Changes the data of messages between the marshaler and the broker: `claimCheck()`, `encrypted()`. Unlike a marshaler, a codec may be asynchronous and sees the
 * attributes.
 *
 * A codec returns the message, or a copy of it, by `message.copy(bytes)` and `withAttributes()`. It may add attributes and change `datacontenttype`; `decode` restores
 * both. It must leave `id`, `source`, `type` and `partitionkey` as they are.
 *
 * An error with `retryable: false` puts the fault in the message: on reading, the router rejects it. Every other error is retried.
 */
export interface PayloadCodec {
  encode(message: RawMessage, options: CodecCallOptions): RawMessage | Promise<RawMessage>
  /** Returns a message that the codec has not encoded unchanged, or rejects it. */
  decode(message: RawMessage, options: CodecCallOptions): RawMessage | Promise<RawMessage>
}

/** The options of everything that reads or writes messages with codecs. */
export interface CodecOptions {
  /**
   * Change the data of messages on their way to and from the broker, such as `[encrypted({ keys }), claimCheck({ store })]`. They are applied in this order
   * when a message is written, and in reverse when it is read. Default: none.
   */
  readonly codecs?: readonly PayloadCodec[] | undefined
  /** The time limit of all codecs for one message, in milliseconds. Default: 10,000. */
  readonly codecTimeout?: number | undefined
}
