import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { isAckordError } from '../../src/errors.ts'
import { type Attributes, checkAttributes, missingAttributes, parseInstant } from '../../src/message/attributes.ts'

describe('missingAttributes', () => {
  it('lists all required names that are missing or empty', () => {
    expect(missingAttributes({})).toEqual(['id', 'type', 'source', 'specversion'])
    expect(missingAttributes({ id: '1', type: '', source: undefined, specversion: '1.0' })).toEqual(['type', 'source'])
    expect(missingAttributes({ id: '1', type: 'a', source: '/', specversion: '1.0' })).toEqual([])
  })

  it('returns a frozen list', () => {
    const complete = { id: '1', type: 'a', source: '/', specversion: '1.0' }
    expect(() => (missingAttributes(complete) as string[]).push('type')).toThrow(TypeError)
    expect(missingAttributes(complete)).toEqual([])
  })
})

describe('checkAttributes', () => {
  const problem = (attributes: object): string => {
    try {
      checkAttributes(attributes as Attributes, 'the message')
    } catch (error) {
      if (isAckordError(error, 'ACKORD_INVALID_ATTRIBUTES')) return error.message
      throw error
    }
    return ''
  }

  it('accepts every type that CloudEvents supports, and missing attributes', () => {
    expect(problem({})).toBe('')
    expect(
      problem({
        id: '1',
        time: new Date(),
        expirytime: '2026-01-01T00:00:00Z',
        a: 'x',
        b: 1.5,
        c: false,
        d: new Date(),
        e: new Uint8Array(),
        f: undefined,
        subject: undefined,
      }),
    ).toBe('')
  })

  it.each(['id', 'type', 'source', 'specversion', 'subject', 'datacontenttype', 'dataschema', 'partitionkey', 'correlationid'])(
    'requires a string as %s',
    (name) => {
      expect(problem({ [name]: 5 })).toBe(`Attribute '${name}' of the message must be a string; it is a number.`)
      expect(problem({ [name]: null })).toContain('it is null')
    },
  )

  it.each(['time', 'expirytime'])('requires an instant as %s, without showing the value', (name) => {
    expect(problem({ [name]: 'secret' })).toBe(
      `Attribute '${name}' of the message must be a valid Date or an RFC 3339 string; it is a string of another format.`,
    )
    expect(problem({ [name]: new Date(Number.NaN) })).toContain('it is an instance of Date')
    expect(problem({ [name]: 5 })).toContain('it is a number')
  })

  it.each([
    [{}, 'a plain object'],
    [[], 'an array'],
    [null, 'null'],
    [Number.NaN, 'a number'],
    [Infinity, 'a number'],
    [5n, 'a bigint'],
    [() => {}, 'a function'],
    [Symbol('s'), 'a symbol'],
  ])('rejects %o as an extension', (value, kind) => {
    expect(problem({ mine: value })).toContain(
      `Attribute 'mine' of the message must be a string, number, boolean, Date or bytes; it is ${kind}`,
    )
  })

  it.each(['data', 'data_base64'])('rejects the name %s, which is reserved for the data', (name) => {
    expect(problem({ [name]: 'x' })).toContain(`Attribute '${name}' of the message must have another name`)
    expect(problem({ [name]: undefined })).toBe('')
  })

  it('sets whether a retry can help, as passed', () => {
    for (const retryable of [true, false]) {
      expect(() => checkAttributes({ id: 5 } as never, 'it', { retryable })).toThrow(expect.objectContaining({ retryable }))
    }
  })
})

describe('parseInstant', () => {
  it.each([
    ['2026-02-03T04:05:06Z', '2026-02-03T04:05:06.000Z'],
    ['2026-02-03T04:05:06.7Z', '2026-02-03T04:05:06.700Z'],
    ['2026-02-03T04:05:06.789Z', '2026-02-03T04:05:06.789Z'],
    ['2026-02-03T04:05:06.789999999Z', '2026-02-03T04:05:06.789Z'],
    ['2026-02-03T04:05:06+01:00', '2026-02-03T03:05:06.000Z'],
    ['2026-02-03T00:05:06.5-23:30', '2026-02-03T23:35:06.500Z'],
    ['2026-02-03t04:05:06z', '2026-02-03T04:05:06.000Z'],
    ['2026-02-03 04:05:06Z', '2026-02-03T04:05:06.000Z'],
    ['2024-02-29T00:00:00Z', '2024-02-29T00:00:00.000Z'],
  ])('parses %s', (text, instant) => {
    expect(parseInstant(text)?.toISOString()).toBe(instant)
  })

  it.each([
    '',
    'now',
    '2026',
    '2026-02-03',
    '2026-02-03T04:05:06',
    '2026-02-03T04:05Z',
    '2026-02-03T04:05:06.Z',
    '2026-02-03T25:00:00Z',
    '2026-13-01T00:00:00Z',
    '2026-00-01T00:00:00Z',
    '2026-02-29T00:00:00Z',
    '2026-02-30T00:00:00Z',
    '2026-04-31T00:00:00Z',
    '2026-02-03T04:05:06Z ',
    'Tue, 03 Feb 2026 04:05:06 GMT',
    '+002026-02-03T04:05:06Z',
  ])('does not parse %j as an instant', (text) => {
    expect(parseInstant(text)).toBeUndefined()
  })

  it.each([undefined, null, 0, 1770000000000, true, {}, new Date(Number.NaN)])('does not parse %s as an instant', (value) => {
    expect(parseInstant(value)).toBeUndefined()
  })

  it('parses what a Date writes', () => {
    const instants = fc.date({
      noInvalidDate: true,
      min: new Date('0100-01-01T00:00:00Z'),
      max: new Date('9999-12-31T23:59:59.999Z'),
    })
    fc.assert(
      fc.property(instants, (instant) => {
        expect(parseInstant(instant.toISOString())).toEqual(instant)
        expect(parseInstant(instant)).toBe(instant)
      }),
    )
  })
})

it.each(['partitionKey', 'correlationId', 'expiryTime', 'dataContentType', 'ID', 'TraceParent'])(
  'rejects %s, which differs from a known name only in case',
  (name) => {
    expect(() => checkAttributes({ [name]: 'x' }, 'a message')).toThrow(
      `Attribute '${name}' of a message must be written in lower case: '${name.toLowerCase()}'.`,
    )
  },
)

it('accepts names of other systems', () => {
  expect(() => checkAttributes({ 'X-Request-Id': 'x', myExtension: 1 }, 'a message')).not.toThrow()
})
