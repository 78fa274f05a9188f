import { describe, expect, it } from 'vitest'
import { readMessage, type SqsMessage } from '../../src/index.ts'

const utf8 = new TextDecoder()
const topic = 'arn:aws:sns:eu-central-1:000000000000:orders'
const structuredType = 'application/cloudevents+json'
const context = { specversion: '1.0', id: 'e1', type: 'order.placed', source: '/shop' }
const event = { ...context, datacontenttype: 'application/json', data: { total: 1 } }
const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'

function native(body: string, more: Partial<SqsMessage> = {}): SqsMessage {
  const sentAt = new Date('2026-01-01T00:00:00Z')
  return { queue: 'billing', messageId: 'm1', body, messageAttributes: {}, groupId: undefined, sentAt, receiveCount: 1, ...more }
}

/** A notification as SNS writes it into a queue. */
function notification(message: string, attributes: Readonly<Record<string, string>> = {}, more: object = {}): string {
  return JSON.stringify({
    Type: 'Notification',
    MessageId: 'n1',
    TopicArn: topic,
    Message: message,
    Timestamp: '2026-01-02T03:04:05.678Z',
    SignatureVersion: '1',
    Signature: 'c2lnbmF0dXJl',
    UnsubscribeURL: 'https://sns.eu-central-1.amazonaws.com/',
    MessageAttributes: Object.fromEntries(Object.entries(attributes).map(([name, Value]) => [name, { Type: 'String', Value }])),
    ...more,
  })
}

function read(message: SqsMessage) {
  const { data, attributes } = readMessage(message)
  return { text: utf8.decode(data), attributes: { ...attributes } }
}

describe('a CloudEvent', () => {
  const attributes = { ...context, datacontenttype: 'application/json' }
  const prefixed = Object.fromEntries(Object.entries(context).map(([name, value]) => [`ce_${name}`, value]))
  const binary = { ...prefixed, 'content-type': 'application/json' }

  it.each([
    ['structured', native(JSON.stringify(event), { messageAttributes: { 'content-type': structuredType } })],
    ['structured, without a content type', native(JSON.stringify(event))],
    ['structured, in a notification', native(notification(JSON.stringify(event), { 'content-type': structuredType }))],
    ['binary', native('{"total":1}', { messageAttributes: binary })],
    ['binary, in a notification', native(notification('{"total":1}', binary))],
  ])('is read: %s', (_kind, message) => {
    expect(read(message)).toEqual({ text: '{"total":1}', attributes })
  })

  it.each([
    ['of the message', native(JSON.stringify(event), { messageAttributes: { traceparent } })],
    ['of the notification', native(notification(JSON.stringify(event), { traceparent }))],
  ])('has the trace of message attributes, unless it has its own: %s', (_kind, message) => {
    expect(read(message).attributes).toMatchObject({ traceparent })
  })

  it('that is declared and invalid is an error', () => {
    const messageAttributes = { 'content-type': structuredType }
    for (const body of ['', '7', '[]', '{"specversion":', '{"specversion":"1.0","id":7}']) {
      expect(() => readMessage(native(body, { messageAttributes })), body).toThrow()
    }
  })
})

describe('a message of another producer', () => {
  it('has the message id as id, the queue as type and source, and the time at which it was sent', () => {
    const url = 'https://sqs.eu-central-1.amazonaws.com/000000000000/billing.fifo'
    const message = native('hello', { queue: url, groupId: 'customer-7', messageAttributes: { 'content-type': 'text/plain' } })
    expect(read(message)).toEqual({
      text: 'hello',
      attributes: {
        ...{ id: 'm1', type: 'billing.fifo', source: url, time: '2026-01-01T00:00:00.000Z' },
        ...{ partitionkey: 'customer-7', datacontenttype: 'text/plain' },
      },
    })
  })

  it('in a notification has the id, the topic, the time and the subject of that', () => {
    expect(read(native(notification('hello', {}, { Subject: 'Greeting' })))).toEqual({
      text: 'hello',
      attributes: { id: 'n1', type: 'orders', source: topic, time: '2026-01-02T03:04:05.678Z', subject: 'Greeting' },
    })
  })

  it.each([
    ['an object', '{"TopicArn":"arn:aws:sns:a:1:b"}'],
    ['an object like an event', '{"specversion":"1.0"}'],
    ['an object like an event of EventBridge', '{"detail-type":"x","id":1}'],
    ['a notification without a message', JSON.stringify({ Type: 'Notification', TopicArn: topic, MessageId: 'n1' })],
    ['a notification of another service', notification('x', {}, { TopicArn: 'arn:aws:s3:::orders' })],
    ['null', 'null "TopicArn" "specversion"'],
    ['broken JSON', '{"TopicArn": '],
    ['prototype names', '{"__proto__":{"specversion":"1.0"},"TopicArn":null,"detail-type":null}'],
  ])('keeps its body: %s', (_kind, body) => {
    expect(read(native(body))).toMatchObject({ text: body, attributes: { id: 'm1', source: 'billing' } })
  })

  it('keeps attributes out of the message that are no CloudEvents attributes', () => {
    const messageAttributes = JSON.parse('{"__proto__":"x","constructor":"x","ce_":"x","tenant":"7"}')
    expect(Object.keys(read(native('hello', { messageAttributes })).attributes).sort()).toEqual(['id', 'source', 'time', 'type'])
  })
})
