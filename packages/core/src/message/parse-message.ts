import { Message, type MessageOptions, type RawMessage } from './message.ts'
import { fromStructured } from './structured-json.ts'

/** Reads a message in CloudEvents structured JSON. Throws `ACKORD_INVALID_MESSAGE` or `ACKORD_INVALID_ATTRIBUTES`, with the member that is wrong. */
export function parseMessage(input: string | Uint8Array, options: MessageOptions = {}): RawMessage {
  const { data, attributes } = fromStructured(input)
  return new Message(data, attributes, options)
}
