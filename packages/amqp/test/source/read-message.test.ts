import rhea from 'rhea'
import { describe, expect, it } from 'vitest'
import { type AmqpMessage, readMessage } from '../../src/index.ts'

const { message: codec, types } = rhea

/** What another client sends, as rhea has it after a transfer. */
function received(native: object): AmqpMessage {
  // rhea declares the type of another module of it.
  return codec.decode(codec.encode(native as Parameters<typeof codec.encode>[0])) as unknown as AmqpMessage
}

const text = (data: Uint8Array) => new TextDecoder().decode(data)
const event = { 'cloudEvents:specversion': '1.0', 'cloudEvents:id': 'e1', 'cloudEvents:type': 't', 'cloudEvents:source': '/s' }
const uuid = Buffer.from('00112233445566778899aabbccddeeff', 'hex')

describe('the body of a message', () => {
  it.each<[string, object, string]>([
    ['a data section', { body: codec.data_section(Buffer.from('abc')) }, 'abc'],
    ['several data sections', { body: codec.data_sections([Buffer.from('ab'), Buffer.from('c')]) }, 'abc'],
    ['a string as a value', { body: 'grüße' }, 'grüße'],
    ['bytes as a value', { body: Buffer.from('abc') }, 'abc'],
    ['a symbol as a value', { body: types.wrap_symbol('abc') }, 'abc'],
    ['a number as a value', { body: 7 }, '7'],
    ['a boolean as a value', { body: false }, 'false'],
    ['a map as a value', { body: { a: 1, b: ['x'] } }, '{"a":1,"b":["x"]}'],
    ['a list as a value', { body: [1, 'x', null] }, '[1,"x",null]'],
    ['null as a value', { body: null }, ''],
    ['no bytes', { body: codec.data_section(Buffer.alloc(0)) }, ''],
    ['a sequence section', { body: codec.sequence_section([1, 'x']) }, '[1,"x"]'],
  ])('%s is its data', (_title, native, expected) => {
    expect(text(readMessage(received(native), 'orders').data)).toBe(expected)
  })

  it('keeps all bytes', () => {
    const bytes = Buffer.from(Array.from({ length: 256 }, (_, index) => index))
    expect(readMessage(received({ body: codec.data_section(bytes) }), 'orders').data).toEqual(new Uint8Array(bytes))
  })
})

describe('a CloudEvent', () => {
  it('is read with either prefix, and its content type from the property', () => {
    for (const prefix of ['cloudEvents:', 'cloudEvents_']) {
      const application_properties = { [`${prefix}specversion`]: '1.0', [`${prefix}id`]: 'e1', [`${prefix}source`]: '/s', other: 'x' }
      const { attributes } = readMessage(received({ application_properties, content_type: 'text/plain', body: 'x' }), 'orders')
      expect(attributes).toEqual({ specversion: '1.0', id: 'e1', source: '/s', datacontenttype: 'text/plain' })
    }
  })

  it('has attributes of the types that CloudEvents has, and none of the others', () => {
    const time = new Date('2026-01-31T12:00:00.123Z')
    const application_properties = {
      ...event,
      'cloudEvents:number': types.wrap_long(2 ** 40),
      'cloudEvents:short': types.wrap_ubyte(7),
      'cloudEvents:double': 1.5,
      'cloudEvents:yes': true,
      'cloudEvents:bytes': types.wrap_binary(Buffer.from('ab')),
      'cloudEvents:when': types.wrap_timestamp(time.getTime()),
      'cloudEvents:symbol': types.wrap_symbol('s'),
      'cloudEvents:nothing': null,
    }
    const { attributes } = readMessage(received({ application_properties, body: 'x' }), 'orders')
    expect(attributes).toMatchObject({ number: 2 ** 40, short: 7, double: 1.5, yes: true, when: '2026-01-31T12:00:00.123Z', symbol: 's' })
    expect(attributes['bytes']).toEqual(new Uint8Array([97, 98]))
    expect(attributes).not.toHaveProperty('nothing')
  })

  it('in structured mode is read from its text', () => {
    const body = codec.data_section(Buffer.from(JSON.stringify({ specversion: '1.0', id: 'e1', type: 't', source: '/s', data: { n: 1 } })))
    const { attributes, data } = readMessage(received({ content_type: 'application/cloudevents+json; charset=utf-8', body }), 'orders')
    expect(attributes).toMatchObject({ id: 'e1', type: 't', source: '/s' })
    expect(text(data)).toBe('{"n":1}')
  })

  it('in structured mode that is no JSON cannot be read', () => {
    const broken = received({ content_type: 'application/cloudevents+json', body: codec.data_section(Buffer.from('{')) })
    expect(() => readMessage(broken, 'orders')).toThrow()
  })
})

describe('a message that is no CloudEvent', () => {
  it('has attributes from its properties', () => {
    const native = received({
      message_id: 'm1',
      subject: 'order.placed',
      correlation_id: 'c1',
      content_type: 'text/plain',
      creation_time: new Date('2026-01-31T12:00:00Z'),
      group_id: 'customer-7',
      body: 'x',
    })
    expect(readMessage(native, 'orders').attributes).toEqual({
      id: 'm1',
      type: 'order.placed',
      source: 'orders',
      correlationid: 'c1',
      datacontenttype: 'text/plain',
      time: '2026-01-31T12:00:00.000Z',
      partitionkey: 'customer-7',
    })
  })

  it.each<[string, unknown, string]>([
    ['a number', types.wrap_ulong(42), '42'],
    ['a UUID', types.wrap_uuid(uuid), '00112233-4455-6677-8899-aabbccddeeff'],
    ['bytes', types.wrap_binary(Buffer.from([0xab, 0xcd])), 'abcd'],
  ])('has an id of %s as text', (_title, message_id, expected) => {
    expect(readMessage(received({ message_id, body: 'x' }), 'orders').attributes['id']).toBe(expected)
  })

  it('without any property has its address only', () => {
    expect(readMessage(received({ body: 'x' }), 'orders').attributes).toEqual({ source: 'orders' })
    expect(readMessage({}, 'orders')).toEqual({ data: new Uint8Array(0), attributes: { source: 'orders' } })
  })

  it.each<[string, AmqpMessage]>([
    ['a subject that is no text', { subject: 7, body: 'x' }],
    ['a time that is none', { creation_time: new Date(Number.NaN), body: 'x' }],
    ['properties with the names of an object', { application_properties: JSON.parse('{"__proto__":"x","constructor":"y"}'), body: 'x' }],
    ['a described type as a property', { application_properties: { traceparent: { descriptor: 'x', value: 'y' } }, body: 'x' }],
  ])('is read in spite of %s', (_title, native) => {
    expect(readMessage(native, 'orders').attributes).toEqual({ source: 'orders' })
  })
})
