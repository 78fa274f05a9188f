import { type Attributes, parseMessage } from '@ackord/core'
import { bufferOf, definedAttributes, missingAttributes, percentDecode, readTraceHeaders } from '@ackord/core/broker'
import { setAttribute } from '@ackord/core/internal'
import type { NatsHeaders, NatsMessage } from '../client.ts'
import { attributeHeaders } from '../headers.ts'

export interface ReadMessage {
  readonly data: Uint8Array
  readonly attributes: Attributes
}

/**
 * Reads a message as the source does, for tools that look into a stream. CloudEvents in binary mode (`ce-` headers) or structured mode (`content-type`, or no headers at all and a whole event in the body, as the binding
 * was before NATS had headers); other messages by their subject and stream. A message without the attributes of a trace has those in its headers `traceparent`, `tracestate` and `baggage`.
 * Throws for an invalid structured event.
 */
export function readMessage(native: NatsStreamMessage): ReadMessage {
  const { data, headers } = native
  const attributes = headers === undefined ? undefined : readHeaders(headers)
  if (attributes !== undefined) return { data, attributes: withTrace(attributes, native) }
  if (structuredType.test(headerOf(native, 'content-type') ?? '')) {
    const event = readStructured(data)
    return { ...event, attributes: withTrace(event.attributes, native) }
  }
  return (headers === undefined ? undeclaredEvent(data) : undefined) ?? { data, attributes: foreignAttributes(native) }
}

const structuredType = /^application\/cloudevents(\+json)?\s*(;|$)/i

/** The attributes of a message that is no CloudEvent. Without a `Nats-Msg-Id`, its stream and sequence are the id. */
export function foreignAttributes(native: NatsStreamMessage): Attributes {
  const { stream, sequence, subject, time } = native
  const attributes = definedAttributes({
    id: headerOf(native, 'Nats-Msg-Id') ?? `${stream}:${sequence}`,
    type: subject,
    source: stream,
    time: time.toISOString(),
    datacontenttype: headerOf(native, 'content-type'),
  })
  return withTrace(attributes, native)
}

function withTrace(attributes: Attributes, native: NatsStreamMessage): Attributes {
  return readTraceHeaders(attributes, (name) => headerOf(native, name))
}

function readStructured(body: Uint8Array): ReadMessage {
  const { data, attributes } = parseMessage(body)
  return { data, attributes }
}

function readHeaders(headers: NatsHeaders): Attributes | undefined {
  const names = headers.keys()
  const attributes = attributeHeaders.read(names, (name) => headers.get(name))
  // Some clients write header names in capitals, as HTTP does; attributes have lower-case names.
  const others = names.filter((name) => /^ce-/i.test(name) && !name.startsWith('ce-'))
  if (others.length === 0) return attributes
  const all = attributes ?? {}
  for (const name of others) setAttribute(all, name.slice(3).toLowerCase(), percentDecode(headers.get(name)))
  return all
}

function undeclaredEvent(data: Uint8Array): ReadMessage | undefined {
  if (data[0] !== openingBrace || !bufferOf(data).includes('"specversion"')) return undefined
  try {
    const event = readStructured(data)
    return missingAttributes(event.attributes).length === 0 ? event : undefined
  } catch {
    return undefined
  }
}

const openingBrace = 0x7b

function headerOf({ headers }: NatsStreamMessage, name: string): string | undefined {
  const wanted = name.toLowerCase()
  // The length first: this runs for every message, and few headers have the wanted one.
  const found = headers?.keys().find((header) => header.length === wanted.length && header.toLowerCase() === wanted)
  const value = found === undefined ? undefined : headers?.get(found)
  return value === '' ? undefined : value
}

/** A message of a stream, for the option `attributes`. */
export interface NatsStreamMessage {
  readonly subject: string
  readonly data: Uint8Array
  readonly headers: NatsHeaders | undefined
  readonly stream: string
  /** Its number in the stream. */
  readonly sequence: number
  /** When the stream stored it. */
  readonly time: Date
  /** The number of deliveries, this one included. */
  readonly deliveryCount: number
}

/** One delivery: the message, and the subject for the verdict. */
export interface StreamDelivery extends NatsStreamMessage {
  readonly reply: string
  /** The number of this delivery among all deliveries of the consumer, to any source. */
  readonly consumerSequence: number
  /** Unique per message, and the same for each of its deliveries. The sequence alone is not: a stream that is created again counts from the start. */
  readonly identity: string
}

/** `undefined` for a message that is not from a stream. Everything that JetStream says about a delivery is in the subject for its verdict. */
export function streamDelivery({ subject, data, headers, reply = '' }: NatsMessage): StreamDelivery | undefined {
  const tokens = reply.split('.')
  if (tokens[0] !== '$JS' || tokens[1] !== 'ACK') return undefined
  // $JS.ACK.stream.consumer.delivered.sequence.…; newer servers put domain and account before the stream.
  const first = tokens.length >= 11 ? 4 : 2
  const [stream = '', , delivered, sequence, consumerSequence, nanoseconds = ''] = tokens.slice(first)
  return {
    subject,
    data,
    headers,
    reply,
    stream,
    sequence: Number(sequence),
    deliveryCount: Number(delivered),
    consumerSequence: Number(consumerSequence),
    time: new Date(Number(nanoseconds) / 1_000_000),
    identity: `${sequence} ${nanoseconds}`,
  }
}
