import type { Attributes } from '../../src/message/attributes.ts'
import { Message, type RawMessage } from '../../src/message/message.ts'
import type { CodecCallOptions, PayloadCodec } from '../../src/payload/codec.ts'

export const call: CodecCallOptions = { signal: new AbortController().signal }

export function bytesOf(text: string): Uint8Array {
  return new TextEncoder().encode(text)
}

export function textOf({ data }: RawMessage): string {
  return new TextDecoder().decode(data)
}

/** A marshalled message, as codecs get it. */
export function placed(text = '{"total":7}', attributes: Attributes = {}): RawMessage {
  const own = { id: 'o1', source: '/shop', type: 'order.placed', specversion: '1.0', datacontenttype: 'application/json' }
  return new Message(bytesOf(text), { ...own, ...attributes })
}

/** The message as another process receives it: nothing of the objects is shared. */
export function received(message: RawMessage, attributes: Attributes = {}): RawMessage {
  return new Message(message.data.slice(), message.attributes).withAttributes(attributes)
}

export function withBytes(message: RawMessage, data: Uint8Array): RawMessage {
  return new Message(data, message.attributes)
}

/** A codec that marks what it has done: `name(data)`. Synchronous. */
export function wrapping(name: string): PayloadCodec {
  return {
    encode: (message) => message.copy(bytesOf(`${name}(${textOf(message)})`)),
    decode(message) {
      const text = textOf(message)
      return text.startsWith(`${name}(`) ? message.copy(bytesOf(text.slice(name.length + 1, -1))) : message
    },
  }
}
