import { type Attributes, parseMessage } from '@ackord/core'
import { definedAttributes, isStructuredContentType, missingAttributes, readTraceHeaders } from '@ackord/core/broker'
import { endOfValue } from '@ackord/core/internal'
import type { SqsReceivedMessage } from '../client.ts'
import { attributeHeaders } from '../event-text.ts'

/** A message of a queue, for the option `attributes`. */
export interface SqsMessage {
  /** The name or URL of the queue, as the source was given it. */
  readonly queue: string
  readonly messageId: string
  readonly body: string
  /** The message attributes that are text. */
  readonly messageAttributes: Readonly<Record<string, string>>
  /** The group of a FIFO queue. */
  readonly groupId: string | undefined
  /** When it was sent; `undefined` if SQS did not report it. */
  readonly sentAt: Date | undefined
  /** The number of times that SQS has delivered it, this one included. */
  readonly receiveCount: number | undefined
}

export interface ReadMessage {
  readonly data: Uint8Array
  readonly attributes: Attributes
}

/**
 * Reads a message as the source does, for tools that look into a queue. CloudEvents in structured mode or in binary mode (`ce_` message attributes), as they are, in a notification of SNS or in an event of
 * EventBridge; other events of EventBridge by their envelope, and other messages by their message id and queue. Throws for an invalid structured event.
 */
export function readMessage(native: SqsMessage): ReadMessage {
  const { body, messageAttributes, attributes: fallback } = contentOf(native)
  const withTrace = ({ data, attributes }: ReadMessage) => ({
    data,
    attributes: readTraceHeaders(attributes, (name) => messageAttributes[name]),
  })
  const names = Object.keys(messageAttributes)
  const attributes = attributeHeaders.read(names, (name) => messageAttributes[name])
  if (attributes !== undefined) return withTrace({ data: utf8.encode(body), attributes })
  const contentType = messageAttributes['content-type']
  if (isStructuredContentType(contentType)) return withTrace(parsed(body))
  return withTrace(
    undeclaredEvent(body) ??
      busEvent(body) ?? { data: utf8.encode(body), attributes: { ...fallback, ...definedAttributes({ datacontenttype: contentType }) } },
  )
}

/** The attributes of a message that cannot be read, or is no CloudEvent. */
export function foreignAttributes(native: SqsMessage): Attributes {
  return contentOf(native).attributes
}

/** The message itself, or the one in a notification of SNS, with the attributes that it has if it is no CloudEvent. */
function contentOf(native: SqsMessage): Pick<SqsMessage, 'body' | 'messageAttributes'> & { readonly attributes: Attributes } {
  const { queue, messageId, body, messageAttributes, groupId, sentAt } = native
  const isDeclared = isStructuredContentType(messageAttributes['content-type'])
  const notification = isDeclared ? undefined : notificationOf(body)
  const type = nameOf(queue)
  if (notification === undefined) {
    const attributes = { id: messageId, type, source: queue, time: sentAt?.toISOString(), partitionkey: groupId }
    return { body, messageAttributes, attributes: definedAttributes(attributes) }
  }
  const { id, topic, text, time, subject } = notification
  const attributes = { id, type: nameOf(topic), source: topic, time: time ?? sentAt?.toISOString(), subject, partitionkey: groupId }
  return { body: text, messageAttributes: notification.messageAttributes, attributes: definedAttributes(attributes) }
}

interface Notification {
  readonly id: string
  readonly topic: string
  readonly text: string
  readonly time: string | undefined
  readonly subject: string | undefined
  readonly messageAttributes: Readonly<Record<string, string>>
}

/** The envelope in which SNS delivers a message to a queue, unless the subscription has raw message delivery. */
function notificationOf(body: string): Notification | undefined {
  const envelope = objectIn(body, '"TopicArn"')
  if (envelope?.['Type'] !== 'Notification') return undefined
  const { MessageId: id, TopicArn: topic, Message: text, Timestamp: timestamp, Subject: subject, MessageAttributes: attributes } = envelope
  if (typeof id !== 'string' || typeof text !== 'string' || typeof topic !== 'string' || !/^arn:[^:]+:sns:/.test(topic)) return undefined
  const time = typeof timestamp === 'string' && !Number.isNaN(Date.parse(timestamp)) ? timestamp : undefined
  const shown = typeof subject === 'string' && subject !== '' ? subject : undefined
  return { id, topic, text, time, subject: shown, messageAttributes: textAttributes(attributes, 'Type', 'Value') }
}

/** An event of EventBridge: the CloudEvent in its detail, or else the detail with the attributes of the envelope. */
function busEvent(body: string): ReadMessage | undefined {
  const envelope = objectIn(body, '"detail-type"')
  if (envelope === undefined) return undefined
  const { id, source, account, time, detail } = envelope
  const type = envelope['detail-type']
  if (typeof id !== 'string' || typeof source !== 'string' || typeof type !== 'string' || typeof account !== 'string') return undefined
  if (typeof detail !== 'object' || detail === null) return undefined
  const text = detailText(body, detail)
  const event = undeclaredEvent(text)
  if (event !== undefined) return event
  const at = typeof time === 'string' && !Number.isNaN(Date.parse(time)) ? time : undefined
  const attributes = { specversion: '1.0', id, source, type, time: at, datacontenttype: 'application/json' }
  return { data: utf8.encode(text), attributes: definedAttributes(attributes) }
}

/** The source text of `detail`: parsing and writing it again would change numbers past 2^53. The body is known to be a JSON object. */
function detailText(body: string, detail: object): string {
  let text: string | undefined
  for (let start = body.indexOf('"'); start !== -1; ) {
    // A member ends where its value does.
    const end = endOfValue(body, start)
    text = /^"detail"\s*:([\s\S]*)$/.exec(body.slice(start, end))?.[1]?.trim() ?? text
    start = body.indexOf('"', end)
  }
  return text ?? JSON.stringify(detail)
}

/** A complete CloudEvent without a content type, as other tools send it. */
function undeclaredEvent(body: string): ReadMessage | undefined {
  if (objectIn(body, '"specversion"') === undefined) return undefined
  try {
    const event = parsed(body)
    return missingAttributes(event.attributes).length === 0 ? event : undefined
  } catch {
    return undefined
  }
}

function parsed(body: string): ReadMessage {
  const { data, attributes } = parseMessage(body)
  return { data, attributes }
}

/** The JSON object in a text that contains `hint`. Most texts need not be parsed. */
function objectIn(text: string, hint: string): Readonly<Record<string, unknown>> | undefined {
  if (!/^\s*\{/.test(text) || !text.includes(hint)) return undefined
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : undefined
  } catch {
    return undefined
  }
}

/** The message attributes that are text, of an answer of SQS or of a notification of SNS. */
function textAttributes(attributes: unknown, typeName: string, valueName: string): Readonly<Record<string, string>> {
  if (typeof attributes !== 'object' || attributes === null) return {}
  const texts: Record<string, string> = Object.create(null)
  for (const [name, attribute] of Object.entries(attributes as Record<string, Record<string, unknown> | null>)) {
    const [type, value] = [attribute?.[typeName], attribute?.[valueName]]
    if (typeof value === 'string' && typeof type === 'string' && !type.startsWith('Binary')) texts[name] = value
  }
  return texts
}

/** The last part of a queue URL or an ARN. */
function nameOf(target: string): string {
  return /[^/:]+$/.exec(target)?.[0] ?? target
}

/** A received message in the form for `readMessage()`. */
export function sqsMessage(queue: string, received: SqsReceivedMessage): SqsMessage {
  const { MessageId: messageId = '', Body: body = '', Attributes: system = {} } = received
  const sent = Number(system['SentTimestamp'])
  const count = Number(system['ApproximateReceiveCount'])
  return {
    ...{ queue, messageId, body, groupId: system['MessageGroupId'] },
    messageAttributes: textAttributes(received.MessageAttributes, 'DataType', 'StringValue'),
    sentAt: sent > 0 && sent <= maxTime ? new Date(sent) : undefined,
    receiveCount: count > 0 ? count : undefined,
  }
}

const utf8 = new TextEncoder()
// The latest instant of a `Date`.
const maxTime = 8.64e15
