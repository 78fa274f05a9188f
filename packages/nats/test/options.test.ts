import { expect, it } from 'vitest'
import { type NatsConnection, type NatsPublisherOptions, type NatsSourceOptions, natsPublisher, natsSource } from '../src/index.ts'

/** Already closed, so that the test leaves no work running. */
const connection: NatsConnection = {
  publish: () => {},
  request: () => Promise.reject(new Error('closed')),
  subscribe: () => ({ drain: () => Promise.resolve() }),
  flush: () => Promise.resolve(),
  status: async function* () {},
  isClosed: () => true,
  closed: () => Promise.resolve(),
}

it.each([
  ['stream', { stream: '' }],
  ['stream', { stream: 'a.b' }],
  ['consumer', { consumer: 'all *' }],
  ['order', { order: 'total' }],
  ['prefetch', { prefetch: 0 }],
  ['attributes', { attributes: 'id' }],
  ['backoff', { backoff: 100 }],
  ['domain', { domain: 'a.b' }],
  ['inboxPrefix', { inboxPrefix: 'in box' }],
  ['deadLetter', { deadLetter: 'dead' }],
  ['logger', { logger: {} }],
  ['declare', { declare: true }],
  ['declare', { declare: { name: 'x' } }],
  ['declare.stream.subjects', { declare: { stream: {} } }],
  ['declare.stream.storage', { declare: { stream: { subjects: ['a'], storage: 'disk' } } }],
  ['declare.stream.retention', { declare: { stream: { subjects: ['a'], retention: 'queue' } } }],
  ['declare.stream.replicas', { declare: { stream: { subjects: ['a'], replicas: 0 } } }],
  ['declare.stream', { declare: { stream: { subjects: ['a'], maxage: 1 } } }],
  ['declare.consumer.ackWait', { declare: { consumer: { ackWait: 0 } } }],
  ['declare.consumer.maxAckPending', { declare: { consumer: { maxAckPending: 0 } } }],
  ['declare.consumer.from', { declare: { consumer: { from: 'start' } } }],
  ['prefech', { prefech: 1 }],
])('a source refuses a wrong %s: %o', (name, wrong) => {
  const options = { stream: 'orders', consumer: 'billing', ...wrong } as NatsSourceOptions

  expect(() => natsSource(connection, options)).toThrow(
    expect.objectContaining({ code: 'ACKORD_INVALID_OPTION', message: expect.stringContaining(name) }),
  )
})

it.each([
  ['subject', { subject: 'orders' }],
  ['mode', { mode: 'batch' }],
  ['expectedStream', { expectedStream: 'a b' }],
  ['unroutable', { unroutable: 'message' }],
  ['deduplicate', { deduplicate: 'no' }],
  ['timeout', { timeout: 0 }],
  ['route', { route: () => 'orders' }],
])('a publisher refuses a wrong %s: %o', (name, wrong) => {
  expect(() => natsPublisher(connection, wrong as NatsPublisherOptions)).toThrow(
    expect.objectContaining({ code: 'ACKORD_INVALID_OPTION', message: expect.stringContaining(name) }),
  )
})

it.each([undefined, null, {}, { publish() {} }])('rejects a value that is not a connection: %o', (wrong) => {
  expect(() => natsPublisher(wrong as unknown as NatsConnection)).toThrow(expect.objectContaining({ code: 'ACKORD_INVALID_OPTION' }))
})
