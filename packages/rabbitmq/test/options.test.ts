import { expect, it } from 'vitest'
import { type RabbitmqPublisherOptions, type RabbitmqSourceOptions, rabbitmqPublisher, rabbitmqSource } from '../src/index.ts'
import { FakeConnection } from './support/fake-connection.ts'

const connection = new FakeConnection()

it.each([
  ['queue', { queue: '' }],
  ['prefetch', { prefetch: 0 }],
  ['prefetch', { prefetch: 65_536 }],
  ['attributes', { attributes: 'id' }],
  ['maxDelay', { maxDelay: -1 }],
  ['maxDelay', { maxDelay: Number.NaN }],
  ['retryQueues', { retryQueues: 'yes' }],
  ['retryConnection', { retryConnection: {} }],
  ['retryConnection', { retryConnection: connection, retryQueues: false }],
  ['backoff', { backoff: 100 }],
  ['deadLetter', { deadLetter: 'dead' }],
  ['deadLetterTimeout', { deadLetterTimeout: 0 }],
  ['logger', { logger: {} }],
  ['declare', { declare: true }],
  ['declare.type', { declare: { type: 'stream' } }],
  ['declare.durable', { declare: { type: 'quorum', durable: false } }],
  ['declare.durable', { declare: { durable: 'yes' } }],
  ['declare', { declare: { name: 'x' } }],
  ['prefech', { prefech: 1 }],
])('a source refuses a wrong %s: %o', (name, wrong) => {
  const options = { queue: 'orders', ...wrong } as RabbitmqSourceOptions

  expect(() => rabbitmqSource(connection, options)).toThrow(
    expect.objectContaining({ code: 'ACKORD_INVALID_OPTION', message: expect.stringContaining(name) }),
  )
})

it.each([
  ['route', { route: 'orders' }],
  ['mandatory', { mandatory: 'yes' }],
  ['unroutable', { unroutable: 'message' }],
  ['persistent', { persistent: 2 }],
  ['mode', { mode: 'batch' }],
  ['connectTimeout', { connectTimeout: 0 }],
  ['logger', { logger: {} }],
  ['confirm', { confirm: false }],
])('a publisher refuses a wrong %s: %o', (name, wrong) => {
  const options = wrong as RabbitmqPublisherOptions

  expect(() => rabbitmqPublisher(connection, options)).toThrow(
    expect.objectContaining({ code: 'ACKORD_INVALID_OPTION', message: expect.stringContaining(name) }),
  )
})

it('both reject a value that is not a connection', () => {
  for (const wrong of [undefined, {}, Promise.resolve(connection)]) {
    expect(() => rabbitmqSource(wrong as FakeConnection, { queue: 'orders' })).toThrow('connection.createChannel must be a function')
    expect(() => rabbitmqPublisher(wrong as FakeConnection)).toThrow('connection.createChannel must be a function')
  }
})

it('constructing one sends nothing', () => {
  rabbitmqSource(connection, { queue: 'orders' })
  rabbitmqPublisher(connection)

  expect(connection.channels).toEqual([])
  expect(connection.listenerCount('error')).toBe(1)
})
