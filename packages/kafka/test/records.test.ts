import { Message, type RawMessage } from '@ackord/core'
import { CloudEvent, Kafka as KafkaBinding } from 'cloudevents'
import { describe, expect, it } from 'vitest'
import type { KafkaMessage } from '../src/index.ts'
import { writeRecord } from '../src/publisher/write-record.ts'
import { readRecord } from '../src/source/read-record.ts'
import { event } from './support/world.ts'

const base: KafkaMessage = {
  topic: 'orders',
  partition: 3,
  offset: '42',
  timestamp: '1767225600123',
  key: null,
  value: Buffer.from('{}'),
  headers: {},
}
const buffers = (headers: Readonly<Record<string, string | undefined>>) =>
  Object.fromEntries(Object.entries(headers).flatMap(([name, value]) => (value === undefined ? [] : [[name, Buffer.from(value)]])))

function roundTrip(message: RawMessage, mode: 'binary' | 'structured') {
  const { key, value, headers } = writeRecord(message, mode)
  return readRecord({ ...base, key, value, headers: buffers(headers) })
}

describe.each(['binary', 'structured'] as const)('%s mode', (mode) => {
  it('preserves data and attributes', () => {
    const message = event('ü\n"%', {
      partitionkey: 'k',
      subject: 'line\r\nbreak',
      datacontenttype: 'application/json',
      time: '2026-01-02T03:04:05Z',
    })
    const { data, attributes } = roundTrip(message, mode)

    expect(attributes).toEqual(message.attributes)
    expect(Buffer.from(data)).toEqual(Buffer.from(message.data))
  })

  it.each([new Uint8Array(), new Uint8Array([0, 255, 128]), new Uint8Array(1_000_000).fill(7)])('brings back bytes', (bytes) => {
    const { data } = roundTrip(new Message(bytes, { ...event('a').attributes, datacontenttype: 'application/octet-stream' }), mode)

    expect(Buffer.from(data).equals(bytes)).toBe(true)
  })

  it('has the ordering key as the key of the record', () => {
    expect(writeRecord(event('a', { partitionkey: 'für' }), mode).key).toEqual(Buffer.from('für'))
    expect(writeRecord(event('a'), mode).key).toBeNull()
  })

  it('rejects attributes that cannot be sent', () => {
    expect(() => writeRecord(event('a', { when: new Date(Number.NaN) }), mode)).toThrow("'when'")
  })
})

describe('binary mode', () => {
  it('writes values as text', () => {
    const { headers } = writeRecord(
      event('a', { time: new Date('2026-01-02T03:04:05.678Z'), count: 7, urgent: true, digest: new Uint8Array([1, 2]) }),
      'binary',
    )

    expect(headers).toMatchObject({
      ce_id: 'a',
      ce_specversion: '1.0',
      ce_time: '2026-01-02T03:04:05.678Z',
      ce_count: '7',
      ce_urgent: 'true',
      ce_digest: 'AQI=',
    })
  })

  it('is compatible with the CloudEvents SDK', () => {
    const { key, value, headers } = writeRecord(event('a', { partitionkey: 'k', datacontenttype: 'application/json' }), 'binary')
    const theirs = KafkaBinding.toEvent({ key: key?.toString() ?? '', value: value.toString(), headers, body: value.toString() } as never)
    expect({ ...(theirs as CloudEvent<unknown>) }).toMatchObject({ id: 'a', type: 'test.event', source: '/test', partitionkey: 'k' })

    const sent = KafkaBinding.binary(new CloudEvent({ type: 't', source: '/s', data: { n: 1 }, partitionkey: 'p' }))
    const read = readRecord({
      ...base,
      key: Buffer.from(String(sent.key)),
      value: Buffer.from(JSON.stringify(sent.value)),
      headers: buffers(sent.headers as Record<string, string>),
    })
    expect(read.attributes).toMatchObject({ type: 't', source: '/s', partitionkey: 'p', specversion: '1.0' })
    expect(Buffer.from(read.data).toString()).toBe('{"n":1}')
  })
})

describe('foreign records', () => {
  it('have their position as id, the topic as type and source, the key as ordering key', () => {
    const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'
    const native = {
      ...base,
      key: Buffer.from('k'),
      headers: { 'content-type': Buffer.from('text/plain'), traceparent: [Buffer.from(traceparent), Buffer.from('00-2')] },
    }

    expect(readRecord(native).attributes).toEqual({
      id: 'orders/3/42',
      type: 'orders',
      source: 'orders',
      time: '2026-01-01T00:00:00.123Z',
      datacontenttype: 'text/plain',
      traceparent,
      partitionkey: 'k',
    })
  })

  it('may be tombstones, theirs and ours', () => {
    expect(readRecord({ ...base, value: null }).attributes).toMatchObject({ tombstone: true })
    expect(readRecord({ ...base, value: null }).data).toEqual(new Uint8Array())
    const { headers } = writeRecord(event('a'), 'binary')
    expect(readRecord({ ...base, value: null, headers: buffers(headers) }).attributes).toMatchObject({ id: 'a', tombstone: true })
    expect(readRecord({ ...base, value: null, headers: { 'content-type': 'application/cloudevents+json' } }).attributes).toMatchObject({
      tombstone: true,
    })
  })

  it('may have no time, and headers of any kind', () => {
    const attributes = readRecord({ ...base, timestamp: '-1', headers: { ce_id: undefined, ce_other: 'x' } }).attributes

    expect(attributes).toEqual({ id: 'orders/3/42', type: 'orders', source: 'orders' })
  })

  it('that claim to be structured and are not cannot be read', () => {
    expect(() =>
      readRecord({ ...base, value: Buffer.from('{'), headers: { 'content-type': 'application/cloudevents+json; charset=UTF-8' } }),
    ).toThrow('not valid JSON')
  })
})
