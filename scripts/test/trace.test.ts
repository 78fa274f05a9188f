import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import type { PrintedSpan } from '../../test/telemetry/run-shop.ts'
import { drawTrace, type Trace, toTrace } from '../site/trace.mjs'
import { root } from './docs-blocks.ts'

const printed = (span: Partial<PrintedSpan>): PrintedSpan => ({
  ...{ span: 'POST /orders', service: 'shop', kind: 'SERVER', traceId: 't1', spanId: 's1' },
  ...{ links: [], start: 1000, end: 1004, attributes: {}, events: [] },
  ...span,
})
const sent = printed({
  ...{ span: 'send orders', kind: 'CLIENT', traceId: 't2', spanId: 's2', links: ['s1'], start: 1006, end: 1008 },
  attributes: { 'messaging.system.name': 'rabbitmq', 'ackord.outbox.oldest_age': 0.003 },
})
const processed = printed({
  ...{ span: 'process orders', service: 'orders', kind: 'CONSUMER', traceId: 't3', spanId: 's3', links: ['s1'], start: 1008, end: 1010 },
  attributes: { 'messaging.system.name': 'rabbitmq' },
  events: [{ name: 'ackord.committed', at: 1009 }],
})
const trace = toTrace([processed, sent, printed({})], '2026-11-18')

describe('the recorded trace', () => {
  const recorded: Trace = JSON.parse(readFileSync(`${root}docs/trace.json`, 'utf8'))

  it('is what docs/public/trace.svg shows (node scripts/render-trace.mjs)', () => {
    expect(readFileSync(`${root}docs/public/trace.svg`, 'utf8')).toBe(drawTrace(recorded))
  })

  it('is one order through HTTP, an outbox, RabbitMQ, an inbox and outbox, and NATS, joined by links', () => {
    expect(recorded.spans.map(({ service, name, kind, system, links }) => [service, name, kind, system, links])).toEqual([
      ['shop', 'POST /orders', 'SERVER', undefined, []],
      ['shop', 'send orders', 'CLIENT', 'rabbitmq', [1]],
      ['orders', 'process orders', 'CONSUMER', 'rabbitmq', [1]],
      ['orders', 'send placed', 'CLIENT', 'nats', [3]],
      ['shop', 'process placed', 'CONSUMER', 'nats', [3]],
    ])
    expect(recorded.spans.map(({ outbox }) => outbox !== undefined)).toEqual([false, true, false, true, false])
  })

  it('is what the guide says about it', () => {
    const guide = readFileSync(`${root}docs/guides/telemetry.md`, 'utf8')
    for (const { name } of recorded.spans) expect(guide).toContain(`\`${name}\``)
    expect(guide).toContain('(../public/trace.svg)')
  })
})

describe('a trace', () => {
  it('has its spans in the order of time, with times since the first', () => {
    expect(trace.spans).toEqual([
      { id: 1, trace: 1, service: 'shop', name: 'POST /orders', kind: 'SERVER', links: [], start: 0, end: 4 },
      {
        id: 2,
        trace: 2,
        service: 'shop',
        name: 'send orders',
        kind: 'CLIENT',
        system: 'rabbitmq',
        links: [1],
        start: 6,
        end: 8,
        outbox: 3,
      },
      {
        ...{ id: 3, trace: 3, service: 'orders', name: 'process orders', kind: 'CONSUMER', system: 'rabbitmq', links: [1] },
        ...{ start: 8, end: 10, committed: 9 },
      },
    ])
  })

  it('puts a span behind the one that it is linked to, if both begin in the same millisecond', () => {
    const early = { ...sent, start: 1000 }
    expect(toTrace([early, printed({})], '').spans.map(({ name }) => name)).toEqual(['POST /orders', 'send orders'])
  })
})

describe('the drawing of a trace', () => {
  const svg = drawTrace(trace)
  const boxes = [...svg.matchAll(/<rect class="((?:s|frame l)\d)" x="([\d.]+)" y="([\d.]+)" width="([\d.]+)"/g)]
    .map(([, kind, x, y, width]) => ({ kind, x: Number(x), y: Number(y), width: Number(width) }))
    // The legend is above.
    .filter(({ y }) => y > 90)

  it('has a bar for each span, in the colour of its service, and a hatched one for the time in the outbox', () => {
    expect(boxes.map(({ kind }) => kind)).toEqual(['s0', 'frame l0', 's0', 's1'])
    const [post, outbox, send, process] = boxes
    const millisecond = (post?.width ?? 0) / 4
    const expected = [
      [0, 4],
      [3, 3],
      [6, 2],
      [8, 2],
    ]
    for (const [index, box] of [post, outbox, send, process].entries()) {
      const [start = 0, duration = 0] = expected[index] ?? []
      expect(box?.x).toBeCloseTo((post?.x ?? 0) + start * millisecond, 0)
      expect(box?.width).toBeCloseTo(duration * millisecond, 0)
    }
  })

  it('has an arrow for each link, and a mark for the commit', () => {
    // One of each is in the legend.
    expect(svg.match(/class="link"/g)).toHaveLength(2 + 1)
    expect(svg.match(/class="commit"/g)).toHaveLength(1 + 1)
  })

  it('is described in words', () => {
    expect(svg).toContain(
      "shop: send orders, 2.0 ms, after 3.0 ms in the outbox, linked to 'POST /orders'; orders: process orders, 2.0 ms, linked to 'POST /orders'.",
    )
  })
})
