import { Message } from '@ackord/core'
import { describe, expect, it } from 'vitest'
import { deliveryCount } from '../src/delivery-count.ts'
import { readMessage } from '../src/read-attributes.ts'
import { writeBinary } from '../src/write-message.ts'
import { native } from './support/fake-connection.ts'

const read = (properties: Parameters<typeof native>[0] & object) => readMessage(native(properties), 'orders').attributes

describe('the attributes of a message', () => {
  it('are read from headers with a colon and with an underscore', () => {
    const headers = { 'cloudEvents:id': 'a', cloudEvents_source: '/s', 'cloudEvents:nr': 7, cloudEvents_on: true, other: 'x' }

    expect(read({ properties: { headers, contentType: 'text/plain', messageId: 'ignored' } })).toEqual({
      id: 'a',
      source: '/s',
      nr: 7,
      on: true,
      datacontenttype: 'text/plain',
    })
  })

  it('leave out what CloudEvents has no type for', () => {
    const headers = { 'cloudEvents:id': 'a', 'cloudEvents:none': null, 'cloudEvents:list': [1], 'cloudEvents:table': { a: 1 } }

    expect(read({ properties: { headers } })).toEqual({ id: 'a' })
  })

  it('read a timestamp of AMQP as its text', () => {
    const headers = { 'cloudEvents:id': 'a', 'cloudEvents:time': { '!': 'timestamp', value: 1_772_360_430 } }

    expect(read({ properties: { headers } }).time).toBe('2026-03-01T10:20:30.000Z')
  })

  it('of a foreign message have no id that it does not have', () => {
    expect(read({})).toEqual({ source: 'orders' })
  })

  it.each([
    ['seconds', 1_772_360_430, '2026-03-01T10:20:30.000Z'],
    ['milliseconds, as many producers write', 1_772_360_430_123, '2026-03-01T10:20:30.123Z'],
    ['nonsense', 1e300, undefined],
    ['a text', 'yesterday', undefined],
  ])('of a foreign message take its timestamp for %s', (_title, timestamp, time) => {
    expect(read({ properties: { timestamp } }).time).toBe(time)
  })

  it('in headers win over a content type that says structured', () => {
    const content = Buffer.from('{"specversion":"1.0","id":"inner"}')
    const properties = { headers: { 'cloudEvents:id': 'outer' }, contentType: 'application/cloudevents+json' }

    expect(read({ content, properties })).toEqual({ id: 'outer', datacontenttype: 'application/cloudevents+json' })
  })

  it('of an event before 1970 or with a wrong time have no AMQP timestamp', () => {
    for (const time of ['1969-07-20T20:17:40Z', 'today']) {
      expect(writeBinary(new Message(new Uint8Array(), { time })).properties).toEqual({ headers: { 'cloudEvents:time': time } })
    }
  })
})

describe('the delivery count', () => {
  const count = (redelivered: boolean, headers: Record<string, unknown> = {}) =>
    deliveryCount(native({ redelivered, properties: { headers } }), 'orders')

  it('is what a quorum queue counted, and this one', () => {
    expect(count(true, { 'x-delivery-count': 3 })).toBe(4)
  })

  it('is 1 for a first delivery, and not known for a later one', () => {
    expect(count(false)).toBe(1)
    expect(count(true)).toBeUndefined()
  })

  it('adds the rounds of this queue through a dead-letter exchange, and no others', () => {
    const deaths = [
      { queue: 'orders', reason: 'rejected', count: 2 },
      { queue: 'orders', reason: 'expired', count: 5 },
      { queue: 'wait', reason: 'expired', count: 2 },
      null,
    ]

    expect(count(false, { 'x-death': deaths })).toBe(3)
    expect(count(false, { 'x-death': 'nonsense' })).toBe(1)
  })
})
