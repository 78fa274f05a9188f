import type { RawMessage } from './message.ts'

/** Where messages go. */
export interface Publisher {
  /**
   * Sends the messages, in this order, and waits until the broker has confirmed each. Resolves to one result per message, in their order:
   * only what is `ok` may be taken as sent. Rejects only when nothing is known of any of them. Never settles the messages.
   */
  publish(
    destination: string,
    messages: readonly RawMessage[],
    options: { readonly signal: AbortSignal },
  ): Promise<readonly PublishResult[]>
  /** Closes what the publisher opened itself. Idempotent. */
  [Symbol.asyncDispose]?(): Promise<void>
}

export type PublishResult = { readonly ok: true } | PublishFailure

export interface PublishFailure {
  readonly ok: false
  readonly error: unknown
  /** The same message will fail again: too large, refused by a schema. Default: false. */
  readonly permanent?: boolean | undefined
  /** Whether the message or the whole destination is at fault: broker down, not allowed, topic missing. Default: 'record'. */
  readonly scope?: 'record' | 'destination' | undefined
  /** Milliseconds before it is worth trying again. */
  readonly retryAfter?: number | undefined
}
