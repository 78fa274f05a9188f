import { Message, type RawMessage } from '@ackord/core'

const data = new Uint8Array(256).fill(120)

/** An event of 256 bytes, with the attributes that a service sets. */
export function eventMessage(id: string, more: Readonly<Record<string, string>> = {}): RawMessage {
  const attributes = {
    id,
    type: 'order.placed',
    source: '/orders',
    specversion: '1.0',
    time: new Date().toISOString(),
    datacontenttype: 'application/json',
  }
  return new Message(data, { ...attributes, ...more })
}
