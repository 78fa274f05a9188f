import { type ContextKey, contextKey } from '../message/context.ts'
import { unmarshal } from '../message/marshal.ts'
import type { Marshaler } from '../message/marshaler.ts'
import type { Message, RawMessage } from '../message/message.ts'
import type { CodecChain } from './codec-chain.ts'

/**
 * The message as it came from the broker, in the context of a message that codecs have decoded. A dead letter sends this one: what was encrypted stays
 * encrypted, and what was stored elsewhere stays a reference.
 */
export const receivedMessageKey: ContextKey<RawMessage> = contextKey('ackord.receivedMessage', { callScoped: true })

/** Converts a received message to what handlers accept. Returns a promise if and only if the message passes codecs. */
export type PayloadDecoder = (message: Message, signal: AbortSignal) => Message | Promise<Message>

/** For the messages of a source, which yields bytes; `unmarshal` reports a source that does not. */
export function payloadDecoder(marshaler: Marshaler, codecs: CodecChain | undefined): PayloadDecoder {
  if (codecs === undefined) return (message) => unmarshal(message as RawMessage, marshaler)
  return async function decode(message, signal) {
    const raw = message as RawMessage
    return unmarshal(raw.data instanceof Uint8Array ? await codecs.decode(raw, signal) : raw, marshaler)
  }
}
