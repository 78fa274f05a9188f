import { KafkaJSConnectionError, KafkaJSNumberOfRetriesExceeded, KafkaJSProtocolError } from 'kafkajs'
import { expect, it } from 'vitest'
import {
  fromKafkaJs,
  type KafkaJs,
  type KafkaPublisherOptions,
  type KafkaSourceOptions,
  kafkaPublisher,
  kafkaSource,
} from '../src/index.ts'
import { createClient } from './support/connection.ts'
import { FakeKafka } from './support/fake-kafka.ts'

const { faultOf } = fromKafkaJs(createClient('kafka://127.0.0.1:1'))

function protocolError(type: string): Error {
  return new KafkaJSProtocolError(Object.assign(new Error(type), { type, code: 1, retriable: false }))
}

/** A look-alike, because the types of KafkaJS do not allow constructing this error. */
function loginError(): Error {
  return Object.assign(new Error('wrong password'), { name: 'KafkaJSSASLAuthenticationError' })
}

it.each([
  ['message', protocolError('MESSAGE_TOO_LARGE')],
  ['message', protocolError('RECORD_LIST_TOO_LARGE')],
  ['access', protocolError('TOPIC_AUTHORIZATION_FAILED')],
  ['access', protocolError('GROUP_AUTHORIZATION_FAILED')],
  ['access', loginError()],
  ['topic', protocolError('UNKNOWN_TOPIC_OR_PARTITION')],
  ['topic', new KafkaJSNumberOfRetriesExceeded(protocolError('UNKNOWN_TOPIC_OR_PARTITION'), { retryCount: 5, retryTime: 1 })],
  ['access', new KafkaJSNumberOfRetriesExceeded(loginError(), { retryCount: 5, retryTime: 1 })],
  ['other', new KafkaJSConnectionError('Connection error: ECONNREFUSED')],
  ['other', protocolError('NOT_ENOUGH_REPLICAS')],
  ['other', undefined],
])('an error of KafkaJS is about the %s: %s', (fault, error) => {
  expect(faultOf(error)).toBe(fault)
})

it('rejects a value that is not a KafkaJS client', () => {
  for (const wrong of [undefined, {}, { producer: () => {} }])
    expect(() => fromKafkaJs(wrong as unknown as KafkaJs)).toThrow('must be a function')
  expect(() => fromKafkaJs(createClient('kafka://127.0.0.1:1'), { producer: null } as never)).toThrow('producer')
  expect(() => fromKafkaJs(createClient('kafka://127.0.0.1:1'), { producers: {} } as never)).toThrow('producers')
})

it.each([
  ['topics', { topics: [] }],
  ['topics', { topics: 'orders' }],
  ['topics', { topics: [''] }],
  ['group', { group: '' }],
  ['from', { from: 'start' }],
  ['prefetch', { prefetch: 0 }],
  ['attributes', { attributes: 'id' }],
  ['commitInterval', { commitInterval: -1 }],
  ['maxDelay', { maxDelay: Number.NaN }],
  ['backoff', { backoff: 100 }],
  ['deadLetter', { deadLetter: 'dead' }],
  ['logger', { logger: {} }],
  ['topic', { topic: 'orders' }],
])('a source refuses a wrong %s: %o', (name, wrong) => {
  const options = { topics: ['orders'], group: 'billing', ...wrong } as KafkaSourceOptions

  expect(() => kafkaSource(new FakeKafka(), options)).toThrow(
    expect.objectContaining({ code: 'ACKORD_INVALID_OPTION', message: expect.stringContaining(name) }),
  )
})

it.each([
  ['route', { route: 'orders' }],
  ['mode', { mode: 'batch' }],
  ['acks', { acks: 1 }],
])('a publisher refuses a wrong %s: %o', (name, wrong) => {
  expect(() => kafkaPublisher(new FakeKafka(), wrong as KafkaPublisherOptions)).toThrow(
    expect.objectContaining({ code: 'ACKORD_INVALID_OPTION', message: expect.stringContaining(name) }),
  )
})

it('constructing one sends nothing', () => {
  const kafka = new FakeKafka()
  kafkaSource(kafka, { topics: ['orders'], group: 'billing' })
  kafkaPublisher(kafka)

  expect([kafka.consumers, kafka.producers]).toEqual([[], []])
})
