import rhea, { type Connection } from 'rhea'
import { expect, it } from 'vitest'
import {
  type AmqpPublisherOptions,
  type AmqpSourceOptions,
  amqpPublisher,
  amqpSource,
  exchangeAddress,
  queueAddress,
} from '../src/index.ts'

/** A connection that was never opened. */
const unopened = (): Connection => rhea.create_container().create_connection()

const connection = unopened()

it.each([
  ['address', { address: '' }],
  ['prefetch', { prefetch: 0 }],
  ['prefetch', { prefetch: 10_001 }],
  ['order', { order: 'perQueue' }],
  ['delay', { delay: 'somewhere' }],
  ['maxDelay', { maxDelay: -1 }],
  ['maxDelay', { maxDelay: Number.NaN }],
  ['settleTimeout', { settleTimeout: 0 }],
  ['session', { session: '' }],
  ['session', { session: false }],
  ['attributes', { attributes: 'id' }],
  ['backoff', { backoff: 100 }],
  ['deadLetter', { deadLetter: 'dead' }],
  ['deadLetterTimeout', { deadLetterTimeout: 0 }],
  ['logger', { logger: {} }],
  ['prefech', { prefech: 1 }],
])('a source refuses a wrong %s: %o', (name, wrong) => {
  const options = { address: 'orders', ...wrong } as AmqpSourceOptions
  expect(() => amqpSource(connection, options)).toThrow(
    expect.objectContaining({ code: 'ACKORD_INVALID_OPTION', message: expect.stringContaining(name) }),
  )
})

it.each([
  ['address', { address: 'orders' }],
  ['unroutable', { unroutable: 'message' }],
  ['durable', { durable: 1 }],
  ['mode', { mode: 'batch' }],
  ['connectTimeout', { connectTimeout: 0 }],
  ['logger', { logger: {} }],
  ['confirm', { confirm: false }],
])('a publisher refuses a wrong %s: %o', (name, wrong) => {
  expect(() => amqpPublisher(connection, wrong as AmqpPublisherOptions)).toThrow(
    expect.objectContaining({ code: 'ACKORD_INVALID_OPTION', message: expect.stringContaining(name) }),
  )
})

it('both reject a value that is not a connection', () => {
  for (const wrong of [undefined, {}, Promise.resolve(connection)]) {
    expect(() => amqpSource(wrong as Connection, { address: 'orders' })).toThrow('connection.create_session must be a function')
    expect(() => amqpPublisher(wrong as Connection)).toThrow('connection.create_session must be a function')
  }
})

it('all parts of a connection share its listeners', () => {
  const shared = unopened()
  amqpSource(shared, { address: 'orders' })
  amqpSource(shared, { address: 'others' })
  amqpPublisher(shared)
  expect(shared.listenerCount('disconnected')).toBe(1)
  expect(shared.listenerCount('connection_error')).toBe(1)
})

it('the addresses of RabbitMQ 4 are percent-encoded', () => {
  expect(queueAddress('a/b c%ä')).toBe('/queues/a%2Fb%20c%25%C3%A4')
  expect(exchangeAddress('a/b')).toBe('/exchanges/a%2Fb')
  expect(exchangeAddress('a/b', '')).toBe('/exchanges/a%2Fb')
  expect(exchangeAddress('events', 'order/placed #')).toBe('/exchanges/events/order%2Fplaced%20%23')
})
