import { AckordError } from '@ackord/core'
import { describe, expect, it } from 'vitest'
import { countHeader, serverVersion } from '../../src/client.ts'
import type { RabbitmqMessage } from '../../src/index.ts'
import { DeliveryCounts } from '../../src/source/delivery-counts.ts'
import { native } from '../support/fake-connection.ts'

const failure = new Error('it failed')

function delivered(redelivered: boolean, headers: Record<string, unknown> = {}, messageId = 'a'): RabbitmqMessage {
  return native({ redelivered, properties: { headers, messageId } })
}

/** A message as it is returned from the retry queue of 'orders'. */
function returned(headers: Record<string, unknown>, redelivered = false): RabbitmqMessage {
  const message = delivered(redelivered, headers)
  return { ...message, fields: { ...message.fields, exchange: 'orders.ackord.retry' } }
}

function open(counted?: boolean) {
  return new DeliveryCounts({ queue: 'orders', counted })
}

const [old, present] = ['x-delivery-count', 'x-acquired-count'] as const

describe('the header of a server', () => {
  it.each([
    ['3.10.8', old],
    ['4.0.5', old],
    ['4.2.9', old],
    ['4.3.0', present],
    ['4.10.1', present],
    ['5.0.0', present],
    [undefined, old],
  ])('%s is the one that it writes itself', (version, header) => {
    expect(countHeader(serverVersion({ connection: { serverProperties: { version } } }))).toBe(header)
  })
})

// Headers as the servers send them, also where a sender set counts of 77 and 88 itself.
describe('the delivery count of a quorum queue', () => {
  it.each([
    ['RabbitMQ 3.10 and 4.0', old, [{}, { [old]: 1 }, { [old]: 2 }]],
    [
      'RabbitMQ 3.10, forged',
      old,
      [
        { [old]: 0, [present]: 88 },
        { [old]: 1, [present]: 88 },
        { [old]: 2, [present]: 88 },
      ],
    ],
    [
      'RabbitMQ 4.0, forged',
      old,
      [
        { [old]: 77, [present]: 88 },
        { [old]: 1, [present]: 88 },
        { [old]: 2, [present]: 88 },
      ],
    ],
    ['RabbitMQ 4.3, nacked', present, [{}, { [present]: 1 }, { [present]: 2 }]],
    ['RabbitMQ 4.3, after lost channels', present, [{}, { [present]: 1 }, { [present]: 2, [old]: 1 }]],
    [
      'RabbitMQ 4.3, forged',
      present,
      [
        { [old]: 77, [present]: 88 },
        { [old]: 77, [present]: 1 },
        { [old]: 77, [present]: 2 },
      ],
    ],
    ['RabbitMQ 4.0, forged to be 1', old, [{ [old]: 1 }, { [old]: 1 }, { [old]: 2 }]],
  ] as const)('is what it counted, and this one: %s', (_title, header, deliveries) => {
    for (const counted of [true, undefined]) {
      const counts = open(counted)
      const seen = deliveries.map((headers, index) => {
        const message = delivered(index > 0, headers)
        const count = counts.of(message, header)
        counts.failed(message, header, count, failure)
        return count
      })
      expect(seen).toEqual([1, 2, 3])
      // A new process has no counts of its own.
      expect(open(counted).of(delivered(true, deliveries[2]), header)).toBe(3)
    }
  })

  it('is 1 for a first delivery, whatever the sender wrote', () => {
    expect(open().of(delivered(false), old)).toBe(1)
    // RabbitMQ before 3.12 sends a count with the first delivery, too.
    expect(open().of(delivered(false, { 'x-delivery-count': 0 }), old)).toBe(1)
    expect(open(true).of(delivered(false, { 'x-delivery-count': 99 }), old)).toBe(1)
  })

  it('does not come from headers that are not counts', () => {
    for (const count of ['9', -1, 1.5, Number.NaN, { '!': 'double', value: 9 }]) {
      expect(open(true).of(delivered(true, { 'x-delivery-count': count }), old)).toBe(2)
    }
    expect(open().of(delivered(true, Object.setPrototypeOf({}, { 'x-delivery-count': 99 })), old)).toBe(2)
  })
})

describe('the delivery count of a classic queue', () => {
  it('grows with each failure in this process', () => {
    const counts = open()
    let redelivered = false
    for (const expected of [1, 2, 3, 4]) {
      const message = delivered(redelivered)
      expect(counts.of(message, old)).toBe(expected)
      counts.failed(message, old, expected, failure)
      redelivered = true
    }
    expect(counts.of(delivered(true, {}, 'b'), old)).toBe(2)
    counts.settled(delivered(true))
    expect(counts.of(delivered(true), old)).toBe(2)
  })

  it('does not trust a sender', () => {
    const forged = { 'x-delivery-count': 50, 'x-acquired-count': 50, 'x-ackord-deliveries': 50 }
    for (const counted of [false, undefined]) {
      const counts = open(counted)
      expect(counts.of(delivered(false, forged), old)).toBe(1)
      counts.failed(delivered(false, forged), old, 1, failure)
      expect(counts.of(delivered(true, forged), old)).toBe(2)
      counts.failed(delivered(true, forged), old, 2, failure)
      expect(counts.of(delivered(true, forged), old)).toBe(3)
    }
  })

  it('trusts no header once a redelivered message had none', () => {
    const counts = open()
    expect(counts.of(delivered(true), old)).toBe(2)
    expect(counts.of(delivered(true, { 'x-delivery-count': 50 }, 'b'), old)).toBe(2)
  })

  it('does not count messages that were returned without having been handled', () => {
    const counts = open()
    counts.failed(delivered(false), old, 1, failure)
    counts.failed(delivered(true), old, 2, new AckordError('ACKORD_SHUTDOWN', 'stopping'))
    counts.failed(delivered(true), old, 2, new AckordError('ACKORD_KEY_NACKED', 'the key waits'))
    expect(counts.of(delivered(true), old)).toBe(2)
  })

  it('distinguishes messages without an id by their content', () => {
    const counts = open()
    const make = (text: string) => native({ redelivered: true, content: Buffer.from(text) })
    counts.failed(make('a'), old, 5, failure)
    expect(counts.of(make('a'), old)).toBe(6)
    expect(counts.of(make('b'), old)).toBe(2)
  })

  it('is forgotten past ten thousand failing messages, the oldest first', () => {
    const counts = open()
    for (let index = 0; index <= 10_000; index += 1) counts.failed(delivered(false, {}, `m${index}`), old, 7, failure)
    expect(counts.of(delivered(true, {}, 'm0'), old)).toBe(2)
    expect(counts.of(delivered(true, {}, 'm1'), old)).toBe(8)
  })
})

describe('the delivery count of a message that waited in a retry queue', () => {
  it('continues with the earlier count, also in another process', () => {
    expect(open().of(returned({ 'x-ackord-deliveries': 4 }), old)).toBe(5)
    expect(open(true).of(returned({ 'x-ackord-deliveries': 4, 'x-delivery-count': 2 }, true), old)).toBe(7)
  })

  it('counts the passes of this queue through a dead-letter exchange, and no others', () => {
    const deaths = [
      { queue: 'orders', reason: 'rejected', count: 2 },
      { queue: 'orders', reason: 'expired', count: 5 },
      { queue: 'wait', reason: 'expired', count: 2 },
      null,
    ]
    expect(open().of(delivered(false, { 'x-death': deaths }), old)).toBe(3)
    expect(open().of(delivered(false, { 'x-death': 'nonsense' }), old)).toBe(1)
  })
})
