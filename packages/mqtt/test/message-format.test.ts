import { type Attributes, isAckordError, Message } from '@ackord/core'
import { generate } from 'mqtt-packet'
import { describe, expect, it } from 'vitest'
import { readMessage } from '../src/index.ts'
import { packetSize, writeMessage } from '../src/publisher/write-message.ts'

const data = new TextEncoder().encode('{"a":1}')
const whole = { specversion: '1.0', id: 'e1', type: 'order.placed', source: '/orders' }

function received(payload: string | Buffer, properties: object = {}) {
  return { topic: 'orders/eu', payload, qos: 1, dup: false, retain: false, messageId: 1, properties }
}

/** What a reader gets of a message with these attributes. */
function roundTrip(attributes: Attributes, mode: 'binary' | 'structured' = 'binary') {
  const { topic, payload, properties } = writeMessage(new Message(data, attributes), 'orders', mode)
  return readMessage({ topic, payload, qos: 1, dup: false, retain: false, properties })
}

describe('binary mode', () => {
  it('writes each attribute as a user property of its name, and the content type as the property of the message', () => {
    const { payload, properties } = writeMessage(
      new Message(data, { ...whole, datacontenttype: 'text/plain', tenant: 'a%b' }),
      'orders',
      'binary',
    )

    expect(properties).toEqual({ contentType: 'text/plain', userProperties: { ...whole, tenant: 'a%b' } })
    expect(payload.equals(data)).toBe(true)
  })

  it('writes no user properties for a message without attributes: the client does not send an empty object', () => {
    expect(writeMessage(new Message(data, {}), 'orders', 'binary').properties).toEqual({})
  })

  it('encodes only attributes with characters that a broker refuses, and names these', () => {
    const { properties } = writeMessage(new Message(data, { ...whole, plain: '100 %', note: 'a\tb%' }), 'orders', 'binary')

    expect(properties.userProperties).toMatchObject({ plain: '100 %', note: 'a%09b%25', 'ackord-encoded': ['note'] })
    expect(roundTrip({ ...whole, plain: '100 %', note: 'a\tb%' }).attributes).toEqual({ ...whole, plain: '100 %', note: 'a\tb%' })
  })

  it.each(['__proto__', 'ackord-encoded', 'a\nb', 'constructor', 'ü'])('keeps an attribute with the name %j', (name) => {
    const attributes = Object.defineProperty({ ...whole }, name, { value: 'kept', enumerable: true })

    const read = roundTrip(attributes).attributes

    expect(Object.getOwnPropertyDescriptor(read, name)?.value).toBe('kept')
    expect(Object.getPrototypeOf(read)).toBe(Object.prototype)
  })

  it('writes the content type of a structured event as a user property: readers would take the data for an event', () => {
    const attributes = { ...whole, datacontenttype: 'application/cloudevents+json' }

    expect(writeMessage(new Message(data, attributes), 'orders', 'binary').properties).toEqual({ userProperties: attributes })
    expect(roundTrip(attributes)).toEqual({ data, attributes })
  })

  it('rejects an attribute that is longer than MQTT allows', () => {
    const write = () => writeMessage(new Message(data, { ...whole, note: 'x'.repeat(65_536) }), 'orders', 'binary')

    expect(write).toThrow(expect.objectContaining({ code: 'ACKORD_INVALID_ATTRIBUTES', retryable: false }))
  })
})

describe('structured mode', () => {
  it('keeps the event in one JSON text, and the trace also in user properties', () => {
    const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'
    const { properties } = writeMessage(new Message(data, { ...whole, traceparent }), 'orders', 'structured')

    expect(properties).toEqual({ contentType: 'application/cloudevents+json; charset=utf-8', userProperties: { traceparent } })
    expect(roundTrip({ ...whole, traceparent }, 'structured').attributes).toEqual({ ...whole, traceparent })
  })

  it('writes no user properties without a trace', () => {
    expect(writeMessage(new Message(data, whole), 'orders', 'structured').properties).toEqual({
      contentType: 'application/cloudevents+json; charset=utf-8',
    })
  })

  it.each(['{', '[]', '{"specversion":"1.0","data_base64":7}'])('a text that is no event cannot be read: %s', (text) => {
    const read = () => readMessage(received(text, { contentType: 'application/cloudevents+json' }))

    expect(read).toThrow(expect.toSatisfy((error) => isAckordError(error)))
  })
})

describe('a message of another producer', () => {
  it('has its user properties as attributes, the first of repeated ones, and its topic as its source', () => {
    const properties = { contentType: 'text/plain', userProperties: { tenant: ['a', 'b'], '': 'nameless' } }

    expect(readMessage(received('on', properties)).attributes).toEqual({ tenant: 'a', datacontenttype: 'text/plain', source: 'orders/eu' })
  })

  it('without any properties has only a source, and no generated id', () => {
    expect(readMessage(received('on'))).toEqual({ data: new Uint8Array(Buffer.from('on')), attributes: { source: 'orders/eu' } })
  })

  it.each(['%', '%zz', '%ff'])('with a broken encoding is read as it is: %s', (value) => {
    const userProperties = { note: value, 'ackord-encoded': 'note' }

    expect(readMessage(received('on', { userProperties })).attributes['note']).toBe(value)
  })

  it.each([
    ['in binary mode', received('on', { userProperties: whole, messageExpiryInterval: 60 })],
    ['in structured mode', received(JSON.stringify(whole), { contentType: 'application/cloudevents+json', messageExpiryInterval: 60 })],
  ])('has the expiry of the message as expirytime, %s', (_title, native) => {
    const arrivedAt = Date.parse('2030-01-01T00:00:00Z')

    expect(readMessage(native, arrivedAt).attributes['expirytime']).toBe('2030-01-01T00:01:00.000Z')
    expect(readMessage(native).attributes['expirytime']).toBeUndefined()
  })

  it('keeps an expirytime of its own', () => {
    const userProperties = { ...whole, expirytime: '2030-01-01T00:00:05Z' }

    expect(readMessage(received('on', { userProperties, messageExpiryInterval: 60 }), 0).attributes['expirytime']).toBe(
      '2030-01-01T00:00:05Z',
    )
  })
})

it.each<[string, Attributes, number]>([
  ['small', whole, 0],
  ['without attributes', {}, 1],
  [
    'with a content type and repeated user properties',
    { ...whole, datacontenttype: 'text/plain', one: 'a\tb', two: 'c\td', name: 'ü' },
    200,
  ],
  ['with a length of three bytes', whole, 20_000],
  ['with a length of four bytes', { ...whole, note: 'x'.repeat(30_000) }, 2_200_000],
])('the size of a packet is computed as it is written: %s', (_title, attributes, size) => {
  for (const mode of ['binary', 'structured'] as const) {
    const envelope = writeMessage(new Message(new Uint8Array(size), attributes), 'orders/ü', mode)
    const packet = { cmd: 'publish', qos: 1, dup: false, retain: false, messageId: 1, ...envelope } as const

    expect(packetSize(envelope)).toBe(generate(packet, { protocolVersion: 5 }).byteLength)
  }
})
