import { Message, type MessageOptions, type RawMessage } from './message.ts'
import { fromStructured } from './structured-json.ts'

/** Parses a message in CloudEvents structured JSON. Throws `ACKORD_INVALID_MESSAGE` or `ACKORD_INVALID_ATTRIBUTES`, with the name of the invalid member. */
export function parseMessage(input: string | Uint8Array, options: MessageOptions = {}): RawMessage {
  const { data, attributes } = fromStructured(input)
  return new Message(data, attributes, options)
}
