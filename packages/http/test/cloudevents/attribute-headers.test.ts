import { describe, expect, it } from 'vitest'
import { decodeText, encodeText, readHeaders, writeHeaders } from '../../src/cloudevents/headers.ts'

const required = { id: 'a', type: 't', source: '/s' }
const roundTrip = (value: string) => readHeaders(new Headers(writeHeaders({ ...required, subject: value })))?.subject

describe('header names', () => {
  it('cannot replace the prototype of the attributes', () => {
    const attributes = readHeaders(new Headers({ 'ce-id': 'a', 'ce-__proto__': 'x' })) ?? {}
    expect(Object.getPrototypeOf(attributes)).toBe(Object.prototype)
    expect(Object.entries(attributes)).toContainEqual(['__proto__', 'x'])
  })
})

describe('header values', () => {
  it('are percent-encoded as the HTTP binding specifies', () => {
    expect(encodeText('Euro € 😀', 'x')).toBe('Euro%20%E2%82%AC%20%F0%9F%98%80')
    expect(encodeText('say "100%"\r\n', 'x')).toBe('say%20%22100%25%22%0D%0A')
    // All other printable characters stay as they are.
    const printable = Array.from({ length: 0x7e - 0x21 + 1 }, (_, index) => String.fromCharCode(0x21 + index)).join('')
    expect(encodeText(printable, 'x')).toBe(printable.replace('%', '%25').replace('"', '%22'))
  })

  it.each(['', ' leading and trailing ', 'line\nbreak\r\n', 'quote " and \\ backslash', '100%', '%41', 'ü€😀', '\u0000\u007f', '"quoted"'])(
    'come back as they were: %j',
    (value) => {
      expect(roundTrip(value)).toBe(value)
    },
  )

  it('are read from senders that quote or do not encode', () => {
    expect(decodeText('"a \\"b\\" c"')).toBe('a "b" c')
    expect(decodeText('"%C3%BC"')).toBe('ü')
    expect(decodeText('100% sure')).toBe('100% sure')
    expect(decodeText('%ff%C3%BC')).toBe('%ff%C3%BC')
    expect(decodeText('%2541')).toBe('%41')
  })
})

describe('attributes', () => {
  it('become headers, the content type its own', () => {
    const time = new Date('2026-01-02T03:04:05.678Z')
    expect(
      writeHeaders({ ...required, datacontenttype: 'text/plain', time, count: 7, urgent: false, digest: new Uint8Array([1, 2]) }),
    ).toEqual({
      'ce-specversion': '1.0',
      'ce-id': 'a',
      'ce-type': 't',
      'ce-source': '/s',
      'content-type': 'text/plain',
      'ce-time': '2026-01-02T03:04:05.678Z',
      'ce-count': '7',
      'ce-urgent': 'false',
      'ce-digest': 'AQI=',
    })
  })

  it.each([
    ['id, type and source are missing', {}],
    ['a name is no header', { ...required, 'bad name': 'x' }],
    ['a name is not ASCII', { ...required, größe: 'x' }],
    ['two names differ in case only', { ...required, foo: '1', FOO: '2' }],
    ['a date is invalid', { ...required, when: new Date(Number.NaN) }],
    ['a content type has a line break', { ...required, datacontenttype: 'text/plain\r\nx-evil: 1' }],
    ['a text has half of a surrogate pair', { ...required, subject: 'a\ud800' }],
  ])('are refused when %s', (_title, attributes) => {
    expect(() => writeHeaders(attributes)).toThrow(expect.objectContaining({ code: 'ACKORD_INVALID_ATTRIBUTES', retryable: false }))
  })

  it('are missing without a CloudEvents header', () => {
    expect(readHeaders(new Headers({ 'content-type': 'application/json', accept: '*/*' }))).toBeUndefined()
  })
})
