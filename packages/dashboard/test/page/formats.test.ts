import { describe, expect, it } from 'vitest'
import { fromBase64, hexLines } from '../../page/text/hex-text.ts'
import { atLeast, bytes, capitalised, counted } from '../../page/text/numbers.ts'
import { duration, exactTime, relativeTime } from '../../page/text/times.ts'
import { traceLink } from '../../page/text/trace-link.ts'

describe('times', () => {
  it.each([
    [-5, '0 ms'],
    [850.9, '850 ms'],
    [59_999, '59 s'],
    [3 * 60_000, '3 min'],
    [7_199_000, '1 h'],
    [47 * 3_600_000, '47 h'],
    [5 * 86_400_000, '5 days'],
  ])('shows %d milliseconds as %s', (milliseconds, text) => {
    expect(duration(milliseconds)).toBe(text)
  })

  it('shows instants relative to now', () => {
    expect(relativeTime(100_000, 100_400)).toBe('now')
    expect(relativeTime(100_000, 280_000)).toBe('3 min ago')
    expect(relativeTime(7_190_000, 0)).toBe('in 2 h')
  })

  it('shows an instant exactly, and survives one that is not valid', () => {
    expect(exactTime(Date.UTC(2026, 10, 18, 9, 40, 38, 123))).toBe('2026-11-18 09:40:38.123 UTC')
    expect(exactTime(Number.NaN)).toBe('unknown')
  })
})

describe('numbers', () => {
  it('marks a number at which counting stopped', () => {
    expect(atLeast(10_000, true)).toBe('10,000+')
    expect(atLeast(9999, true)).toBe('9,999')
    expect(atLeast(10_000, false)).toBe('10,000')
  })

  it('agrees with its noun', () => {
    expect([counted(0, 'record'), counted(1, 'record'), counted(412, 'record'), counted(10_000, 'record', true)]).toEqual([
      '0 records',
      '1 record',
      '412 records',
      '10,000+ records',
    ])
    expect(capitalised('parked')).toBe('Parked')
  })

  it('shows sizes', () => {
    expect([0, 999, 1200, 35_000_000, 2e12].map(bytes)).toEqual(['0 B', '999 B', '1.2 kB', '35 MB', '2000 GB'])
  })
})

describe('hexLines()', () => {
  it('shows offset, bytes and printable characters', () => {
    expect(hexLines(new TextEncoder().encode('0123456789abcdef\n<é>'))).toBe(
      [
        '00000000  30 31 32 33 34 35 36 37 38 39 61 62 63 64 65 66  0123456789abcdef',
        '00000010  0a 3c c3 a9 3e                                   .<..>',
      ].join('\n'),
    )
  })

  it('reads base64, also if it was cut off', () => {
    expect([...fromBase64('AAEC/w==')]).toEqual([0, 1, 2, 255])
    expect([...fromBase64('AAEC/')]).toEqual([0, 1, 2])
  })
})

describe('traceLink()', () => {
  it('encodes the id', () => {
    expect(traceLink('https://traces.example/t/{traceId}?x={traceId}', 'a/b&c')).toBe('https://traces.example/t/a%2Fb%26c?x=a%2Fb%26c')
  })

  it('takes patterns of replacements in the id literally', () => {
    expect(traceLink('http://t/{traceId}', '$&')).toBe('http://t/%24%26')
  })

  it.each(['javascript:alert({traceId})', 'data:text/html,{traceId}', '/traces/{traceId}', '{traceId}'])('rejects %s', (template) => {
    expect(traceLink(template, 'javascript:alert(1)')).toBeUndefined()
  })

  it('needs a template and an id', () => {
    expect([traceLink(undefined, 'a'), traceLink('https://t/{traceId}', undefined)]).toEqual([undefined, undefined])
  })
})
