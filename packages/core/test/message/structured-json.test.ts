import { CloudEvent, HTTP } from 'cloudevents'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type AckordError, isAckordError } from '../../src/errors.ts'
import type { Attributes } from '../../src/message/attributes.ts'
import { Message, parseMessage, type RawMessage } from '../../src/message/message.ts'
import { isJsonType } from '../../src/message/structured-json.ts'

const bytes = (text: string) => new TextEncoder().encode(text)
const text = (data: Uint8Array) => new TextDecoder('utf-8', { ignoreBOM: true }).decode(data)
const structured = (message: Message) => JSON.parse(JSON.stringify(message)) as Record<string, unknown>
const roundTrip = (data: Uint8Array, attributes: Attributes = {}) => parseMessage(JSON.stringify(new Message(data, attributes)))

function failure(work: () => unknown): AckordError {
  try {
    work()
  } catch (error) {
    if (isAckordError(error)) return error
    throw error
  }
  throw new Error('expected a failure')
}

describe('the structured form of a message', () => {
  it('has the attributes at its top level and typed data inlined', () => {
    const message = new Message({ a: [1] }, { id: '1', type: 'a', source: '/s', tenant: 't', n: 5, b: false, none: undefined })
    expect(structured(message)).toEqual({
      specversion: '1.0',
      id: '1',
      type: 'a',
      source: '/s',
      tenant: 't',
      n: 5,
      b: false,
      data: { a: [1] },
    })
  })

  it('adds the specversion and keeps another one', () => {
    expect(structured(new Message(1))).toEqual({ specversion: '1.0', data: 1 })
    expect(structured(new Message(1, { specversion: '0.3' }))['specversion']).toBe('0.3')
  })

  it('writes instants as RFC 3339 with their fraction and bytes as base64', () => {
    const time = new Date('2026-02-03T04:05:06.789Z')
    expect(structured(new Message(1, { time, mark: new Uint8Array([1, 2, 3]) }))).toMatchObject({
      time: '2026-02-03T04:05:06.789Z',
      mark: 'AQID',
    })
    expect(structured(new Message(1, { time: '2026-02-03T04:05:06.123456789+01:00' }))['time']).toBe('2026-02-03T04:05:06.123456789+01:00')
  })

  it('inlines bytes that are JSON', () => {
    expect(structured(new Message(bytes('{ "a": [1, "x  y"] }')))).toEqual({
      specversion: '1.0',
      data: { a: [1, 'x  y'] },
    })
    expect(structured(new Message(bytes('"text"')))['data']).toBe('text')
    expect(structured(new Message(bytes('null')))).toEqual({ specversion: '1.0', data: null })
  })

  it.each([
    ['bytes that are not JSON', bytes('hello')],
    ['bytes that are not UTF-8', new Uint8Array([0xff, 0xfe])],
    ['JSON behind a byte order mark', bytes('\ufeff{"a":1}')],
    ['a number past 2^53', bytes('{"n":9007199254740993}')],
    ['a number in another notation', bytes('[1.0,1e3,-0]')],
    ['a duplicate key', bytes('{"a":1,"a":2}')],
    ['keys in an order that JavaScript does not keep', bytes('{"b":1,"1":2}')],
    ['escapes that need not be', bytes('"\\u0041"')],
  ])('has %s as base64, which restores every byte', (_, data) => {
    const event = structured(new Message(data))
    expect(event).not.toHaveProperty('data')
    expect(event['data_base64']).toBe(Buffer.from(data).toString('base64'))
    expect(roundTrip(data).data).toEqual(data)
  })

  it('does not inline bytes whose content type is not JSON, even if they look like it', () => {
    const event = structured(new Message(bytes('5'), { datacontenttype: 'text/plain' }))
    expect(event).toMatchObject({ data_base64: 'NQ==' })
    expect(text(roundTrip(bytes('"5"'), { datacontenttype: 'text/plain' }).data)).toBe('"5"')
  })

  it('omits missing data and empty bytes', () => {
    expect(structured(new Message(undefined))).toEqual({ specversion: '1.0' })
    expect(structured(new Message(new Uint8Array()))).toEqual({ specversion: '1.0' })
    expect(roundTrip(new Uint8Array()).data).toEqual(new Uint8Array())
  })

  it('uses only its own part of a larger buffer', () => {
    const whole = bytes('xx{"a":1}yy')
    expect(structured(new Message(whole.subarray(2, 9)))['data']).toEqual({ a: 1 })
    expect(structured(new Message(whole.subarray(0, 2)))['data_base64']).toBe(Buffer.from('xx').toString('base64'))
  })

  it.each(['data', 'data_base64'])('rejects an attribute named %s, which could be mistaken for the data', (name) => {
    for (const data of [undefined, { a: 1 }, new Uint8Array([255])]) {
      const error = failure(() => JSON.stringify(new Message(data, { [name]: 'x' })))
      expect(error).toMatchObject({ code: 'ACKORD_INVALID_ATTRIBUTES', retryable: false })
      expect(error.message).toContain(`'${name}'`)
    }
    expect(structured(new Message(1, { [name]: undefined }))).toEqual({ specversion: '1.0', data: 1 })
  })
})

describe('parseMessage', () => {
  const parse = (event: unknown): RawMessage => parseMessage(JSON.stringify(event))

  it('parses strings and bytes, with the options of a message', async () => {
    const acks: string[] = []
    const acking = { ack: () => void acks.push('ack'), nack() {}, reject() {} }
    for (const input of ['{"type":"a","data":{"b":1}}', bytes('{"type":"a","data":{"b":1}}')]) {
      const message = parseMessage(input, { deliveryCount: 2, acking })
      expect(message.attributes).toEqual({ type: 'a' })
      expect(text(message.data)).toBe('{"b":1}')
      expect(message.deliveryCount).toBe(2)
      await message.ack()
    }
    expect(acks).toEqual(['ack', 'ack'])
    expect(parse({}).state).toBeUndefined()
  })

  it('keeps attributes with their types and omits null', () => {
    const { attributes } = parse({ id: '1', n: 5, f: 1.5, b: true, t: '', x: null, subject: null })
    expect(attributes).toEqual({ id: '1', n: 5, f: 1.5, b: true, t: '' })
    expect(Object.keys(attributes)).not.toContain('x')
  })

  it('adds no specversion', () => {
    expect(parse({ data: 1 }).specVersion).toBeUndefined()
  })

  it('keeps the fraction and the offset of a time', () => {
    const message = parse({ time: '2026-02-03T04:05:06.123456789+01:00' })
    expect(message.attributes.time).toBe('2026-02-03T04:05:06.123456789+01:00')
    expect(message.time?.toISOString()).toBe('2026-02-03T03:05:06.123Z')
    expect(structured(message)['time']).toBe('2026-02-03T04:05:06.123456789+01:00')
  })

  it.each([
    ['an object', '{"a": [1,  2]}'],
    ['a number past 2^53', '{"n":9007199254740993}'],
    ['a fraction with many digits', '0.1000000000000000055511151231257827'],
    ['duplicate keys', '{"a":1,"a":2}'],
    ['a text', '"quoted \\" and \\\\"'],
    ['an escaped lone surrogate', '"\\ud800"'],
    ['null', 'null'],
    ['false', 'false'],
    ['zero', '0'],
    ['an empty string', '""'],
    ['braces and quotes inside of strings', '{"}\\"":["]",{"a\\\\":"{"}]}'],
    ['characters outside the basic plane', '{"🎵":"日本"}'],
  ])('keeps JSON data as written: %s', (_, data) => {
    expect(text(parseMessage(`{"type":"a","data":${data},"id":"1"}`).data)).toBe(data)
    expect(text(parseMessage(bytes(`{ "data" : ${data} }`)).data)).toBe(data)
    expect(parseMessage(`{"data":${data},"id":"1"}`).id).toBe('1')
  })

  it('finds the data whatever surrounds it', () => {
    expect(text(parseMessage('{"id":"\\"data\\":1","data":2,"type":"{data"}').data)).toBe('2')
    expect(text(parseMessage('{"d\\u0061ta":3}').data)).toBe('3')
    expect(text(parseMessage('{"data":{"data":1}}').data)).toBe('{"data":1}')
    expect(text(parseMessage('\n\t{\r\n"data"\n:\n[ ]\n}\n').data)).toBe('[ ]')
  })

  it('uses the last of several members with one name, as JSON does', () => {
    const message = parseMessage('{"id":"1","data":1,"id":"2","data":2}')
    expect(message.id).toBe('2')
    expect(text(message.data)).toBe('2')
  })

  it('returns strings without JSON quotes where the content type is not JSON', () => {
    expect(text(parse({ datacontenttype: 'text/plain', data: 'say "hi"' }).data)).toBe('say "hi"')
    expect(text(parse({ datacontenttype: 'application/xml', data: '<a/>' }).data)).toBe('<a/>')
    expect(text(parse({ datacontenttype: 'text/plain', data: '' }).data)).toBe('')
    expect(text(parse({ datacontenttype: 'application/json', data: 'hi' }).data)).toBe('"hi"')
    expect(text(parse({ datacontenttype: 'application/vnd.a+json; charset=utf-8', data: 'hi' }).data)).toBe('"hi"')
    expect(text(parse({ data: 'hi' }).data)).toBe('"hi"')
    expect(text(parse({ datacontenttype: 'text/plain', data: { a: 1 } }).data)).toBe('{"a":1}')
  })

  it('replaces an unpaired surrogate of a plain string, which UTF-8 cannot represent', () => {
    expect(text(parse({ datacontenttype: 'text/plain', data: 'a\ud800b' }).data)).toBe('a\ufffdb')
  })

  it('reads data_base64, with padding or without, and prefers it to data', () => {
    expect(text(parse({ data_base64: 'aGk=' }).data)).toBe('hi')
    expect(text(parse({ data_base64: 'aGk' }).data)).toBe('hi')
    expect(text(parse({ data: 'no', data_base64: 'aGk=' }).data)).toBe('hi')
    expect(text(parse({ data: 'yes', data_base64: '' }).data)).toBe('"yes"')
    expect(text(parse({ data: 'yes', data_base64: null }).data)).toBe('"yes"')
  })

  it('returns empty bytes for missing data', () => {
    expect(parse({ type: 'a' }).data).toEqual(new Uint8Array())
    expect(parse({ data_base64: '' }).data).toEqual(new Uint8Array())
  })

  it('skips a byte order mark', () => {
    expect(parseMessage('\ufeff{"id":"1"}').id).toBe('1')
    expect(parseMessage(bytes('\ufeff{"id":"1"}')).id).toBe('1')
  })

  it.each([
    ['an empty string', '', 'not valid JSON'],
    ['broken JSON', '{"secret":', 'not valid JSON'],
    ['two objects', '{}{}', 'not valid JSON'],
    ['bytes that are not UTF-8', new Uint8Array([0x7b, 0xff, 0x7d]), 'not valid UTF-8'],
    ['an array', '[{"secret":1}]', 'not an object'],
    ['null', 'null', 'not an object'],
    ['a text', '"secret"', 'not an object'],
    ['a number', '5', 'not an object'],
    ['base64 that is a number', '{"data_base64":5}', "'data_base64' is not valid base64"],
    ['base64 with strange characters', '{"data_base64":"secret!!"}', "'data_base64' is not valid base64"],
    ['base64 of a length that cannot be', '{"data_base64":"aGkxx"}', "'data_base64' is not valid base64"],
    ['base64 with wrong padding', '{"data_base64":"aGk=="}', "'data_base64' is not valid base64"],
    ['base64 that is padding only', '{"data_base64":"=="}', "'data_base64' is not valid base64"],
    ['a nested attribute', '{"tenant":{"secret":1}}', "'tenant' is neither"],
    ['an array as attribute', '{"tenant":["secret"]}', "'tenant' is neither"],
  ])('rejects %s', (_, input, problem) => {
    const error = failure(() => parseMessage(input))
    expect(error).toMatchObject({ code: 'ACKORD_INVALID_MESSAGE', retryable: false })
    expect(error.message).toContain(problem)
    expect(error.message).not.toContain('secret')
  })

  it.each([
    ['an id that is a number', { id: 5 }, "'id'"],
    ['a type that is a boolean', { type: true }, "'type'"],
    ['an invalid time', { time: 'secret' }, "'time'"],
    ['a day that does not exist', { time: '2026-02-30T00:00:00Z' }, "'time'"],
    ['an expiry time that is a number', { expirytime: 5 }, "'expirytime'"],
  ])('rejects %s', (_, event, name) => {
    const error = failure(() => parse(event))
    expect(error).toMatchObject({ code: 'ACKORD_INVALID_ATTRIBUTES', retryable: false })
    expect(error.message).toContain(name)
    expect(error.message).not.toContain('secret')
  })

  it('rejects a number that JavaScript cannot represent', () => {
    expect(failure(() => parseMessage('{"n":1e999}')).code).toBe('ACKORD_INVALID_ATTRIBUTES')
  })

  it('changes no prototype', () => {
    const message = parseMessage('{"__proto__":"x","data":{"__proto__":{"a":1}}}')
    expect(Object.getPrototypeOf(message.attributes)).toBe(Object.prototype)
    expect(Object.entries(message.attributes)).toEqual([['__proto__', 'x']])
    expect(Object.keys(JSON.parse(JSON.stringify(message)))).toContain('__proto__')
    expect(text(message.data)).toBe('{"__proto__":{"a":1}}')
  })
})

describe('a round trip through the structured form', () => {
  it('keeps any bytes under a content type that is not JSON', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), (data) => {
        const back = roundTrip(data, { datacontenttype: 'application/octet-stream' }).data
        expect(back).toEqual(data)
      }),
    )
  })

  it('keeps any bytes under no content type, JSON up to its white space', () => {
    const json = fc.json().map(bytes)
    fc.assert(
      fc.property(fc.oneof(fc.uint8Array({ maxLength: 200 }), json), (data) => {
        const back = roundTrip(data).data
        if (text(back) === text(data)) return
        expect(JSON.parse(text(back))).toEqual(JSON.parse(text(data)))
        expect(text(back)).toBe(text(data).trim())
      }),
    )
  })

  it('keeps any JSON value', () => {
    fc.assert(
      fc.property(fc.jsonValue({ noUnicodeString: false }), (value) => {
        expect(JSON.parse(text(parseMessage(JSON.stringify(new Message(value))).data))).toEqual(JSON.parse(JSON.stringify(value)))
      }),
    )
  })

  it('keeps any attributes', () => {
    const reserved = ['data', 'time', 'id', 'type', 'source', 'subject']
    const name = fc.stringMatching(/^[a-z0-9]{1,20}$/).filter((text) => !reserved.includes(text))
    const value = fc.oneof(fc.string({ unit: 'binary' }), fc.integer(), fc.boolean(), fc.double({ noDefaultInfinity: true, noNaN: true }))
    fc.assert(
      fc.property(fc.dictionary(name, value), fc.string({ unit: 'grapheme' }), (extensions, id) => {
        const attributes = { specversion: '1.0', ...extensions, id, type: 'a' }
        const back = roundTrip(bytes('{}'), attributes).attributes
        // JSON has no negative zero.
        expect({ ...back }).toEqual(JSON.parse(JSON.stringify(attributes)))
      }),
    )
  })

  it('inlines JSON with megabytes of escapes, as it inlines any other', () => {
    const json = JSON.stringify({ text: '\n"'.repeat(8 * 1024 * 1024) })
    const event = structured(new Message(new TextEncoder().encode(json), { datacontenttype: 'application/json' }))
    expect(Object.keys(event)).toContain('data')
    expect(event).not.toHaveProperty('data_base64')
  })

  it('keeps large payloads, as JSON and as base64', () => {
    const json = bytes(JSON.stringify({ text: 'äöü "\\'.repeat(150_000) }))
    expect(json.byteLength).toBeGreaterThan(1_000_000)
    expect(Buffer.compare(roundTrip(json).data, json)).toBe(0)
    expect(structured(new Message(json))).not.toHaveProperty('data_base64')
    const binary = new Uint8Array(12_000_000).map((_, index) => index % 251)
    expect(Buffer.compare(roundTrip(binary).data, binary)).toBe(0)
  })
})

describe('the cloudevents SDK', () => {
  const attributes = {
    id: 'e-1',
    type: 'order.placed',
    source: '/orders',
    specversion: '1.0',
    subject: 'o-1',
    time: new Date('2026-02-03T04:05:06.789Z'),
    datacontenttype: 'application/json',
    dataschema: 'https://example.org/order.json',
    partitionkey: 'o-1',
    priority: 5,
    urgent: true,
  }

  function readBySdk(message: Message): CloudEvent<unknown> {
    const headers = { 'content-type': 'application/cloudevents+json' }
    const event = HTTP.toEvent<unknown>({ headers, body: JSON.stringify(message) })
    if (Array.isArray(event)) throw new Error('expected one event')
    // The interface has everything that is used here.
    return event as CloudEvent<unknown>
  }

  function writtenBySdk(event: CloudEvent<unknown>): RawMessage {
    return parseMessage(HTTP.structured(event).body as string)
  }

  it('reads what we write: JSON', () => {
    const event = readBySdk(new Message({ total: 12.5, lines: ['ä'] }, attributes))
    expect(event).toMatchObject({
      ...attributes,
      time: '2026-02-03T04:05:06.789Z',
      data: { total: 12.5, lines: ['ä'] },
    })
    expect(event.validate()).toBe(true)
  })

  it('reads what we write: bytes', () => {
    const data = new Uint8Array([0, 1, 254, 255])
    const event = readBySdk(new Message(data, { ...attributes, datacontenttype: 'application/octet-stream' }))
    expect(event.data_base64).toBe(Buffer.from(data).toString('base64'))
    expect(Buffer.from(event.data as Uint8Array)).toEqual(Buffer.from(data))
  })

  it('reads what we write: JSON bytes and a plain text', () => {
    expect(readBySdk(new Message(bytes('{"a":1}'), attributes)).data).toEqual({ a: 1 })
    const plain = readBySdk(new Message('say "hi"', { ...attributes, datacontenttype: 'text/plain' }))
    expect(plain.data).toBe('say "hi"')
  })

  it('reads what we write: no data', () => {
    const { datacontenttype: _, ...bare } = attributes
    const event = readBySdk(new Message(undefined, bare))
    expect(event.data).toBeUndefined()
    expect(event.validate()).toBe(true)
  })

  it('writes what we read: JSON', () => {
    const { time, ...rest } = attributes
    const message = writtenBySdk(new CloudEvent({ ...rest, time: time.toISOString(), data: { total: 12.5, lines: ['ä'] } }))
    expect(message.attributes).toEqual({ ...rest, time: '2026-02-03T04:05:06.789Z' })
    expect(message.time).toEqual(time)
    expect(JSON.parse(text(message.data))).toEqual({ total: 12.5, lines: ['ä'] })
  })

  it('writes what we read: bytes, a plain text, no data', () => {
    const base = { type: 'a', source: '/s' }
    const data = new Uint8Array([0, 1, 254, 255])
    expect(writtenBySdk(new CloudEvent({ ...base, datacontenttype: 'application/octet-stream', data })).data).toEqual(data)
    expect(text(writtenBySdk(new CloudEvent({ ...base, datacontenttype: 'text/plain', data: 'say "hi"' })).data)).toBe('say "hi"')
    const bare = writtenBySdk(new CloudEvent(base))
    expect(bare.data).toEqual(new Uint8Array())
    expect(bare.id).not.toBe('')
    expect(bare.specVersion).toBe('1.0')
  })
})

describe('isJsonType', () => {
  it.each([
    ['application/json', true],
    [' Application/JSON ; charset=utf-8', true],
    ['text/json', true],
    ['application/cloudevents+json', true],
    ['text/plain', false],
    ['application/json-seq', false],
    ['', false],
  ])('recognises %j as JSON: %s', (contentType, expected) => {
    expect(isJsonType(contentType)).toBe(expected)
  })
})
