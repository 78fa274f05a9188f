import { describe, expect, it } from 'vitest'
import { readEntry, type StreamContent, type StreamEntry, writeEntry } from '../../../src/streams/entries/stream-entry.ts'

function entry(...fields: (string | Buffer)[]): StreamEntry {
  return { stream: 'orders', id: '1-0', fields: fields.map((field) => Buffer.from(field)) }
}

function throughRedis(content: StreamContent): StreamContent {
  return readEntry(entry(...writeEntry(content)))
}

describe('the format of entries', () => {
  it('returns every type of attribute unchanged, an instant as a string', () => {
    const attributes = {
      id: 'ü {x}: y',
      text: '',
      whole: 9007199254740991,
      fraction: 0.1,
      negativeZero: -0,
      yes: true,
      no: false,
      bytes: Uint8Array.from([0, 1, 254, 255]),
      'ends;number': 'not a number',
      'ends;bytes': 5,
      ';': 'x',
      __proto__x: 'y',
    }
    const data = Uint8Array.from([0, 255])
    expect(throughRedis({ data, attributes })).toEqual({ data, attributes })
    const time = new Date('2026-02-03T04:05:06.789Z')
    expect(throughRedis({ data, attributes: { time, seen: time } }).attributes).toEqual({
      time: '2026-02-03T04:05:06.789Z',
      seen: '2026-02-03T04:05:06.789Z',
    })
  })

  it('keeps 200 attributes, also with names such as __proto__', () => {
    const attributes = Object.fromEntries(Array.from({ length: 200 }, (_, index) => [`header-${index}`, `value ${index}`]))
    Object.defineProperty(attributes, '__proto__', { value: 'text', enumerable: true })
    const { attributes: back } = throughRedis({ data: new Uint8Array(), attributes })
    expect(Object.keys(back)).toHaveLength(201)
    expect(Object.getOwnPropertyDescriptor(back, '__proto__')?.value).toBe('text')
  })

  it('rejects invalid attributes before they are written', () => {
    const data = new Uint8Array()
    for (const value of [Number.NaN, Number.POSITIVE_INFINITY, new Date(Number.NaN), null, {}, []]) {
      expect(() => writeEntry({ data, attributes: { extra: value as never } })).toThrow("Attribute 'extra'")
    }
    expect(() => writeEntry({ data, attributes: { data: 'x' } })).toThrow("Attribute 'data'")
  })

  it('reads entries of other writers as a JSON object of their fields, with the id of the entry', () => {
    const { data, attributes } = readEntry(entry('orderId', '7', 'total', '3.50'))
    expect(JSON.parse(Buffer.from(data).toString())).toEqual({ orderId: '7', total: '3.50' })
    expect(attributes).toEqual({ id: '1-0', source: 'orders', datacontenttype: 'application/json' })
  })

  it.each([
    ['a number that is none', ['n;number', 'many', 'data', '']],
    ['an empty number', ['n;number', '', 'data', '']],
    ['a boolean that is none', ['b;boolean', 'yes', 'data', '']],
    ['a type that is not known', ['x;date', 'y', 'data', '']],
    ['an attribute twice', ['a', '1', 'a;number', '1', 'data', '']],
    ['a field twice', ['data', '', 'data', '']],
    ['text that is not UTF-8', ['a', Buffer.from([0xff]), 'data', '']],
    ['a name that is not UTF-8', [Buffer.from([0xff]), 'a', 'data', '']],
    ["others' fields that are not UTF-8", ['a', Buffer.from([0xff])]],
  ])('does not read %s', (_, fields) => {
    expect(() => readEntry(entry(...fields))).toThrow('An entry of a stream cannot be read')
  })
})
