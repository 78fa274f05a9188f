import { Message } from '@ackord/core'
import { describe, expect, it } from 'vitest'
import { writeBinary } from '../../src/publisher/write-message.ts'
import { readMessage } from '../../src/source/read-message.ts'
import { native } from '../support/fake-connection.ts'

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

  it('omit headers whose type CloudEvents does not have', () => {
    const headers = { 'cloudEvents:id': 'a', 'cloudEvents:none': null, 'cloudEvents:list': [1], 'cloudEvents:table': { a: 1 } }

    expect(read({ properties: { headers } })).toEqual({ id: 'a' })
  })

  it.each([
    ['bytes', Buffer.from('evil')],
    ['text', 'evil'],
  ])('keep their prototype whatever a header is called, with %s', (_title, value) => {
    const attributes = read({ properties: { headers: { 'cloudEvents:id': 'a', 'cloudEvents:__proto__': value } } })

    expect(Object.getPrototypeOf(attributes)).toBe(Object.prototype)
    expect(Object.keys(attributes)).toEqual(['id', '__proto__'])
    expect(Object.entries(attributes)[1]?.[1]).toEqual(value instanceof Buffer ? new Uint8Array(value) : value)
  })

  it('are not read from a header table that became the prototype', () => {
    const headers = Object.setPrototypeOf({ 'cloudEvents:id': 'a' }, { 'cloudEvents:type': 'forged', 'x-delivery-count': 99 })

    expect(read({ properties: { headers } })).toEqual({ id: 'a' })
  })

  it('read an AMQP timestamp as a string', () => {
    const headers = { 'cloudEvents:id': 'a', 'cloudEvents:time': { '!': 'timestamp', value: 1_772_360_430 } }

    expect(read({ properties: { headers } }).time).toBe('2026-03-01T10:20:30.000Z')
  })

  it('of a foreign message have no id if it has none', () => {
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

  it('in headers take precedence over a structured content type', () => {
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
