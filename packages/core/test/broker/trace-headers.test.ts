import { describe, expect, it } from 'vitest'
import { readTraceHeaders, writeTraceHeaders } from '../../src/broker/trace-headers.ts'
import type { Attributes } from '../../src/index.ts'

const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'
const other = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00'

function written(attributes: Attributes): Record<string, unknown> {
  const headers: Record<string, unknown> = { 'ce-id': '1' }
  writeTraceHeaders(headers, attributes)
  const { 'ce-id': _, ...added } = headers
  return added
}

function read(attributes: Attributes, headers: Readonly<Record<string, unknown>>): Attributes {
  return readTraceHeaders(attributes, (name) => headers[name])
}

describe('writeTraceHeaders()', () => {
  it('adds the trace and the baggage of a message, and nothing to a message without them', () => {
    const trace = { traceparent, tracestate: 'rojo=1,congo=t61rcWkgMzE', baggage: 'user=alice;ttl=5, tier=gold' }
    expect(written({ id: '1', type: 'order.placed', ...trace })).toEqual(trace)
    expect(written({ traceparent })).toEqual({ traceparent })
    expect(written({ baggage: 'user=alice' })).toEqual({ baggage: 'user=alice' })
    expect(written({ id: '1', type: 'order.placed' })).toEqual({})
  })

  it.each<[unknown, string]>([
    ['', 'empty'],
    ['00-1-2-01', 'too short'],
    [`${traceparent}\r\nx: y`, 'with a line break'],
    [`${traceparent}, ${other}`, 'two of them'],
    [traceparent.toUpperCase(), 'in upper case'],
    [7, 'a number'],
  ])('omits a traceparent that is none: %o, %s', (wrong) => {
    expect(written({ traceparent: wrong as string, tracestate: 'a=1' })).toEqual({})
  })

  it.each([
    ['tracestate', 512],
    ['baggage', 8192],
  ])('omits a %s that is longer than %d characters, or that a header cannot have', (name, limit) => {
    const longest = 'x'.repeat(limit)
    expect(written({ traceparent, [name]: longest })).toEqual({ traceparent, [name]: longest })
    for (const wrong of [`${longest}x`, 'a=1\nb=2', 'a=ü', ' a=1', 'a=1 ', '', Uint8Array.of(1)]) {
      expect(written({ traceparent, [name]: wrong })).toEqual({ traceparent })
    }
  })
})

describe('readTraceHeaders()', () => {
  it('reads the trace and the baggage of a message whose attributes have none', () => {
    const trace = { traceparent, tracestate: 'rojo=1', baggage: 'user=alice' }
    expect(read({ id: '1' }, trace)).toEqual({ id: '1', ...trace })
    expect(read({ id: '1' }, { traceparent })).toEqual({ id: '1', traceparent })
    expect(read({ id: '1', traceparent }, { baggage: 'user=alice' })).toEqual({ id: '1', traceparent, baggage: 'user=alice' })
  })

  it('returns the same attributes if there is nothing to add', () => {
    const attributes = { id: '1', traceparent, baggage: 'user=alice' }
    expect(read(attributes, { traceparent: other, tracestate: 'rojo=1', baggage: 'user=bob' })).toBe(attributes)
    expect(read(attributes, {})).toBe(attributes)
  })

  it('never combines the traceparent of one side with the tracestate of the other', () => {
    const headers = { traceparent: other, tracestate: 'rojo=1' }
    expect(read({ traceparent }, headers)).toEqual({ traceparent })
    expect(read({ tracestate: 'congo=2' }, headers)).toEqual({ tracestate: 'congo=2' })
    expect(read({}, { tracestate: 'rojo=1' })).toEqual({})
  })

  it('ignores headers that are no trace', () => {
    for (const wrong of [`${traceparent}, ${other}`, '00-1-2-01', '', Buffer.from(traceparent), null]) {
      expect(read({ id: '1' }, { traceparent: wrong, tracestate: 'rojo=1' })).toEqual({ id: '1' })
    }
    expect(read({}, { traceparent, tracestate: 'x'.repeat(513), baggage: 'x'.repeat(8193) })).toEqual({ traceparent })
  })
})
