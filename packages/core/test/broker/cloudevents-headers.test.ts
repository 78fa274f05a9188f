import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { attributeText, headerCodec, isStructuredContentType, percentDecode, percentEncode } from '../../src/broker/cloudevents-headers.ts'

const read = (codec: ReturnType<typeof headerCodec<string>>, headers: Record<string, string>) =>
  codec.read(Object.keys(headers), (name) => headers[name])

describe('a codec for headers', () => {
  const codec = headerCodec<string>({
    prefix: 'ce-',
    otherPrefixes: ['x-ce-'],
    contentType: 'content-type',
    addSpecversion: true,
    encodeName: (name) => name.toLowerCase(),
    encodeValue: (value) => percentEncode(attributeText(value)),
    decodeValue: percentDecode,
  })

  it('writes attributes with their prefix, the content type under its own name, and a missing specversion', () => {
    const headers = codec.write({ id: 'a b', datacontenttype: 'text/plain', left: undefined, count: 5 })
    expect(headers).toEqual({ 'ce-id': 'a%20b', 'content-type': 'text/plain', 'ce-count': '5', 'ce-specversion': '1.0' })
    expect(codec.write({ specversion: '1.1' })).toEqual({ 'ce-specversion': '1.1' })
  })

  it('reads the headers that it has written, and headers with other prefixes', () => {
    const attributes = { id: 'a b', type: 'ü', source: '/s', specversion: '1.0', datacontenttype: 'text/plain' }
    expect(read(codec, codec.write(attributes))).toEqual(attributes)
    expect(read(codec, { 'x-ce-id': 'a', host: 'example.com', 'ce-': 'no name' })).toEqual({ id: 'a' })
    expect(read(codec, { host: 'example.com', 'content-type': 'text/plain' })).toBeUndefined()
  })

  it('refuses two attributes with one header, and cannot replace the prototype', () => {
    expect(() => codec.write({ Note: 'a', note: 'b' })).toThrow(expect.objectContaining({ code: 'ACKORD_INVALID_ATTRIBUTES' }))
    const attributes = read(codec, { 'ce-id': 'a', 'ce-__proto__': 'x' }) ?? {}
    expect(Object.getPrototypeOf(attributes)).toBe(Object.prototype)
    expect(Object.entries(attributes)).toContainEqual(['__proto__', 'x'])
  })

  it('omits headers whose name or value is not a valid attribute', () => {
    const strict = headerCodec<string | number>({
      prefix: 'ce-',
      encodeValue: (value, name) => (name === 'elsewhere' ? undefined : attributeText(value)),
      decodeName: (name) => (name === 'internal' ? undefined : name),
      decodeValue: (value) => (typeof value === 'string' ? value : undefined),
    })
    expect(strict.write({ id: 'a', elsewhere: 'b', datacontenttype: 'text/plain' })).toEqual({
      'ce-id': 'a',
      'ce-datacontenttype': 'text/plain',
    })
    const headers: Record<string, string | number> = { 'ce-id': 'a', 'ce-internal': 'b', 'ce-number': 5 }
    expect(strict.read(Object.keys(headers), (name) => headers[name])).toEqual({ id: 'a' })
  })
})

describe('percent-encoding', () => {
  it('is visible ASCII, and returns the text when it is decoded', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (text) => {
        expect(percentEncode(text)).toMatch(/^[!#$&-~%]*$/)
        expect(percentDecode(percentEncode(text))).toBe(text)
      }),
    )
  })

  it('does not change text without encoded characters, and refuses half of a surrogate pair', () => {
    expect(percentDecode('100% of %zz and %FF')).toBe('100% of %zz and %FF')
    expect(() => percentEncode('\ud800')).toThrow(URIError)
  })
})

it('values are written as text: instants in ISO 8601, bytes in base64', () => {
  const instant = new Date('2026-03-01T10:20:30.456Z')
  expect([attributeText(instant), attributeText(Uint8Array.of(0, 255)), attributeText(true), attributeText(0.5)]).toEqual([
    '2026-03-01T10:20:30.456Z',
    'AP8=',
    'true',
    '0.5',
  ])
  expect(() => attributeText(new Date(Number.NaN))).toThrow(RangeError)
})

it.each([
  ['application/cloudevents+json', true],
  ['Application/CloudEvents+JSON; charset=utf-8', true],
  ['application/cloudevents-batch+json', false],
  ['application/json', false],
  [undefined, false],
])('whether %s is structured: %s', (contentType, expected) => {
  expect(isStructuredContentType(contentType)).toBe(expected)
})
