import { expect, it } from 'vitest'
import { type SqsClient, type SqsPublisherOptions, type SqsSourceOptions, sqsPublisher, sqsSource } from '../src/index.ts'

/** Answers nothing: no test sends a request. */
const unanswered = () => Promise.reject(new Error('A test sent a request.'))
const client: SqsClient = {
  getQueueUrl: unanswered,
  sendMessageBatch: unanswered,
  receiveMessage: unanswered,
  deleteMessageBatch: unanswered,
  changeMessageVisibilityBatch: unanswered,
}

it.each([
  ['queue', { queue: '' }],
  ['queue', { queue: 'or ders' }],
  ['queue', { queue: 'orders.queue' }],
  ['queue', { queue: 'q'.repeat(81) }],
  ['queue', { queue: 'arn:aws:sqs:eu-central-1:1:orders' }],
  ['prefetch', { prefetch: 0 }],
  ['waitTime', { waitTime: 20_001 }],
  ['visibilityTimeout', { visibilityTimeout: 2999 }],
  ['visibilityTimeout', { visibilityTimeout: 43_200_001 }],
  ['attributes', { attributes: 'id' }],
  ['backoff', { backoff: 100 }],
  ['deadLetter', { deadLetter: 'dead' }],
  ['logger', { logger: {} }],
  ['prefech', { prefech: 1 }],
])('a source refuses a wrong %s: %o', (name, wrong) => {
  const options = { queue: 'orders', ...wrong } as SqsSourceOptions
  expect(() => sqsSource(client, options)).toThrow(
    expect.objectContaining({ code: 'ACKORD_INVALID_OPTION', message: expect.stringContaining(name) }),
  )
})

it.each(['orders', 'orders.fifo', 'https://sqs.eu-central-1.amazonaws.com/000000000000/orders.fifo', 'http://127.0.0.1:4566/0/orders'])(
  'a source accepts the queue %s',
  (queue) => {
    expect(sqsSource(client, { queue }).system).toBe('aws_sqs')
  },
)

it.each([
  ['queue', { queue: 'orders' }],
  ['mode', { mode: 'batch' }],
  ['deduplicate', { deduplicate: 'no' }],
  ['strictOrder', { strictOrder: 1 }],
  ['maxMessageSize', { maxMessageSize: 1023 }],
  ['timeout', { timeout: 0 }],
  ['topic', { topic: () => 'orders' }],
])('a publisher refuses a wrong %s: %o', (name, wrong) => {
  expect(() => sqsPublisher(client, wrong as SqsPublisherOptions)).toThrow(
    expect.objectContaining({ code: 'ACKORD_INVALID_OPTION', message: expect.stringContaining(name) }),
  )
})

it.each([undefined, null, {}, { getQueueUrl: unanswered }])('rejects a value that is not a client: %o', (wrong) => {
  expect(() => sqsPublisher(wrong as unknown as SqsClient)).toThrow(
    expect.objectContaining({ code: 'ACKORD_INVALID_OPTION', message: expect.stringContaining('client-sqs') }),
  )
})

it('rejects an SQSClient, and says which class has the methods', () => {
  expect(() => sqsSource({ send: unanswered } as unknown as SqsClient, { queue: 'orders' })).toThrow(
    /must be an SQS of @aws-sdk\/client-sqs.* It is an SQSClient, which has no method per operation\./,
  )
})

it('a destination that is not the name of a queue fails its messages, and a relay tries them again', async () => {
  const message = { data: new Uint8Array(), attributes: {} }
  const [result] = await sqsPublisher(client).publish('or ders', [message as never], { signal: new AbortController().signal })
  expect(result).toMatchObject({ ok: false, error: { message: "Could not determine the queue of a message to 'or ders'." } })
})
