import { describe, expect, it } from 'vitest'
import { type AckordError, isAckordError } from '../../src/errors.ts'
import type { Attributes } from '../../src/message/attributes.ts'
import { contextKey } from '../../src/message/context.ts'
import { describeMessage, marshal, unmarshal } from '../../src/message/marshal.ts'
import { bytesMarshaler, firstAccepting, jsonMarshaler, type Marshaler, textMarshaler } from '../../src/message/marshaler.ts'
import { ackingOf, Message } from '../../src/message/message.ts'
import { trackedMessage } from '../support/tracked-message.ts'

const bytes = (text: string) => new TextEncoder().encode(text)
const text = (data: Uint8Array) => new TextDecoder('utf-8', { ignoreBOM: true }).decode(data)
const tenant = contextKey<string>('tenant')

function failure(work: () => unknown): AckordError {
  try {
    work()
  } catch (error) {
    if (isAckordError(error)) return error
    throw error
  }
  throw new Error('expected a failure')
}

describe('jsonMarshaler', () => {
  it.each([[{ a: [1, 'ä', null] }], [[]], ['text'], [5], [true], [null]])('writes and reads %j', (data) => {
    const written = jsonMarshaler.marshal(data)
    expect(text(written)).toBe(JSON.stringify(data))
    expect(jsonMarshaler.unmarshal(written, undefined)).toEqual(data)
  })

  it('skips a byte order mark', () => {
    expect(jsonMarshaler.unmarshal(bytes('\ufeff{"a":1}'), undefined)).toEqual({ a: 1 })
  })

  it('writes no data as no bytes, and reads none from none', () => {
    expect(jsonMarshaler.marshal(undefined)).toEqual(new Uint8Array())
    expect(jsonMarshaler.unmarshal(new Uint8Array(), 'application/json')).toBeUndefined()
  })

  it.each([() => {}, Symbol('s')])('cannot represent %s', (data) => {
    expect(failure(() => jsonMarshaler.marshal(data)).code).toBe('ACKORD_MARSHAL_FAILED')
  })

  it.each([
    ['application/json', true],
    ['application/json; charset=utf-8', true],
    ['APPLICATION/JSON', true],
    ['text/json', true],
    ['application/cloudevents+json', true],
    ['text/plain', false],
    ['application/jsonlines', false],
    ['', false],
  ])('accepts %j: %s', (contentType, accepted) => {
    expect(jsonMarshaler.accepts(contentType)).toBe(accepted)
  })
})

describe('textMarshaler', () => {
  it('writes strings unchanged, without quotes', () => {
    expect(text(textMarshaler.marshal('grüß "dich"'))).toBe('grüß "dich"')
    expect(textMarshaler.unmarshal(bytes('grüß "dich"'), undefined)).toBe('grüß "dich"')
    expect(textMarshaler.unmarshal(new Uint8Array(), undefined)).toBe('')
  })

  it('rejects values that are not strings and bytes that are not UTF-8', () => {
    expect(failure(() => textMarshaler.marshal({ secret: 1 })).message).toBe('Plain text cannot represent a plain object.')
    expect(() => textMarshaler.unmarshal(new Uint8Array([0xff]), undefined)).toThrow()
  })
})

describe('bytesMarshaler', () => {
  it('does not change bytes', () => {
    const data = new Uint8Array([0, 255])
    expect(bytesMarshaler.marshal(data)).toBe(data)
    expect(bytesMarshaler.unmarshal(data, 'image/png')).toBe(data)
    expect(bytesMarshaler.accepts('image/png')).toBe(true)
    expect(failure(() => bytesMarshaler.marshal('text')).code).toBe('ACKORD_MARSHAL_FAILED')
  })
})

describe('firstAccepting', () => {
  const both = firstAccepting(jsonMarshaler, textMarshaler)

  it('writes with the first and reads by content type', () => {
    expect(both.contentType).toBe('application/json')
    expect(text(both.marshal('a'))).toBe('"a"')
    expect(both.unmarshal(bytes('"a"'), 'application/json')).toBe('a')
    expect(both.unmarshal(bytes('"a"'), 'text/plain')).toBe('"a"')
    expect(both.unmarshal(bytes('"a"'), undefined)).toBe('a')
    expect([both.accepts('text/plain'), both.accepts('image/png')]).toEqual([true, false])
  })
})

describe('unmarshal', () => {
  it('reads the data and keeps attributes, acking and values', async () => {
    const { message: raw, calls } = trackedMessage(bytes('{"a":1}'), { type: 'a', id: '1' }, { deliveryCount: 2 })
    raw.withValue(tenant, 't')
    const message = unmarshal(raw, jsonMarshaler)
    expect(message.data).toEqual({ a: 1 })
    expect(message.attributes).toEqual({ type: 'a', id: '1' })
    expect(message.deliveryCount).toBe(2)
    expect(message.value(tenant)).toBe('t')
    expect(ackingOf(message)).toBe(ackingOf(raw))
    await message.ack()
    expect(calls).toEqual([{ verdict: 'ack' }])
  })

  it.each([
    ['broken JSON', bytes('{"secret":')],
    ['bytes that are not UTF-8', new Uint8Array([0x22, 0xff, 0x22])],
  ])('rejects %s permanently, with the cause and without the payload', (_, data) => {
    const { message: raw, calls } = trackedMessage(data, { type: 'a', id: '1' })
    const error = failure(() => unmarshal(raw, jsonMarshaler))
    expect(error).toMatchObject({ code: 'ACKORD_UNMARSHAL_FAILED', retryable: false })
    expect(error.message).toBe("Cannot read the data of a message of type 'a' (id '1') as application/json.")
    expect(error.cause).toBeInstanceOf(Error)
    expect(calls).toEqual([])
  })

  it('rejects a content type that the marshaler cannot read', () => {
    const raw = new Message(bytes('<a/>'), { type: 'a', datacontenttype: 'application/xml' })
    const error = failure(() => unmarshal(raw, jsonMarshaler))
    expect(error).toMatchObject({ code: 'ACKORD_UNMARSHAL_FAILED', retryable: false })
    expect(error.message).toContain("'application/xml'")
    expect(unmarshal(raw, bytesMarshaler).data).toBe(raw.data)
  })
})

describe('marshal', () => {
  it('writes the data, sets its content type and keeps the rest', async () => {
    const { message, calls } = trackedMessage({ a: 1 }, { type: 'a', datacontenttype: 'text/plain' })
    message.withValue(tenant, 't')
    const raw = marshal(message, jsonMarshaler)
    expect(text(raw.data)).toBe('{"a":1}')
    expect(raw.attributes).toEqual({ type: 'a', datacontenttype: 'application/json' })
    expect(message.attributes.datacontenttype).toBe('text/plain')
    expect(raw.value(tenant)).toBe('t')
    await raw.ack()
    expect(calls).toEqual([{ verdict: 'ack' }])
  })

  it('rejects attributes that no broker could carry', () => {
    // A JavaScript caller may pass anything.
    const attributes = { type: 'a', tenant: { secret: 1 } } as unknown as Attributes
    const error = failure(() => marshal(new Message(1, attributes), jsonMarshaler))
    expect(error.code).toBe('ACKORD_INVALID_ATTRIBUTES')
    expect(error.message).toBe(
      "Attribute 'tenant' of a message of type 'a' must be a string, number, boolean, Date or bytes; it is a plain object.",
    )
  })

  it('does not change bytes and their content type', () => {
    const data = new Uint8Array([1, 2, 3])
    expect(marshal(new Message(data), jsonMarshaler)).toMatchObject({
      data,
      attributes: { datacontenttype: 'application/octet-stream' },
    })
    const image = marshal(new Message(data, { datacontenttype: 'image/png' }), jsonMarshaler)
    expect(image.attributes.datacontenttype).toBe('image/png')
  })

  it.each([
    ['a function', () => {}],
    ['a big integer', { n: 5n }],
    ['a cycle', cycle()],
    [
      'a toJSON that throws',
      {
        toJSON() {
          throw new Error('secret')
        },
      },
    ],
  ])('fails at %s, naming the message and not the payload', (_, data) => {
    const error = failure(() => marshal(new Message(data, { type: 'a' }), jsonMarshaler))
    expect(error.code).toBe('ACKORD_MARSHAL_FAILED')
    expect(error.message).toBe("Cannot write the data of a message of type 'a' as application/json.")
    expect(error.cause).toBeInstanceOf(Error)
  })

  it.each([
    ['JSON', jsonMarshaler, { a: ['ä', 1] }],
    ['a text', textMarshaler, 'grüß'],
    ['bytes', bytesMarshaler, new Uint8Array([1])],
  ] as [string, Marshaler, unknown][])('is reversed by unmarshal for %s', (_, marshaler, data) => {
    expect(unmarshal(marshal(new Message(data, { type: 'a' }), marshaler), marshaler).data).toEqual(data)
  })
})

describe('describeMessage', () => {
  it('describes a message by type and id', () => {
    expect(describeMessage(new Message('secret'))).toBe('a message without type')
    expect(describeMessage(new Message('secret', { type: 'a' }))).toBe("a message of type 'a'")
    expect(describeMessage(new Message('secret', { type: 'a', id: '1' }))).toBe("a message of type 'a' (id '1')")
    expect(describeMessage(new Message('secret', { id: 'x'.repeat(5000) })).length).toBeLessThan(200)
    expect(describeMessage(new Message('secret', { type: 'x'.repeat(5000) })).length).toBeLessThan(200)
  })

  it('is one line, whatever a sender has chosen', () => {
    const forged = describeMessage(new Message('secret', { type: 'a\u2028b', id: '1\r\n2026-01-01 ERROR\u0000\u001b[31m' }))
    expect(forged).toBe("a message of type 'a\\u2028b' (id '1\\r\\n2026-01-01 ERROR\\u0000\\u001b[31m')")
  })
})

function cycle(): object {
  const self: Record<string, unknown> = {}
  self['self'] = self
  return self
}
