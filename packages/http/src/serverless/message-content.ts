import { AckordError, type Attributes, parseMessage } from '@ackord/core'
import { bufferOf, definedAttributes, headerCodec, isStructuredContentType, missingAttributes, readTraceHeaders } from '@ackord/core/broker'
import { describeValue, type InvokedMessage } from '@ackord/core/internal'

type Content = Pick<InvokedMessage, 'data' | 'attributes'>

/** A message of a platform, before it is known whether it is a CloudEvent. */
export interface PlatformMessage {
  /** As the platform passes it: parsed JSON, text or bytes. */
  readonly body: unknown
  /** The properties among which are the attributes of a CloudEvent in binary mode. Default: the platform has none. */
  readonly properties?: Readonly<Record<string, unknown>> | undefined
  readonly contentType?: string | undefined
  /** The attributes if it is no CloudEvent. */
  readonly foreign: Attributes
  readonly deliveryCount?: number | undefined
  readonly origin?: string | undefined
}

/** CloudEvents in binary mode: as HTTP headers (Pub/Sub), and as application properties of AMQP. */
const propertyReader = headerCodec<unknown>({
  prefix: 'ce-',
  otherPrefixes: ['cloudEvents:', 'cloudEvents_'],
  encodeValue: (value) => value,
  decodeValue: (value) => (typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean' ? value : undefined),
})

/** Reads a CloudEvent in binary or structured mode, or any other message by the attributes of its platform. What cannot be read is rejected. */
export function readContent(message: PlatformMessage): InvokedMessage {
  const { deliveryCount, origin, foreign, body } = message
  try {
    return { ...contentOf(message), deliveryCount, origin }
  } catch (unreadable) {
    return {
      data: bytesOf(body),
      attributes: definedAttributes(foreign),
      deliveryCount,
      origin,
      unreadable: unreadable ?? new Error('unknown'),
    }
  }
}

function contentOf({ body, properties = {}, contentType, foreign }: PlatformMessage): Content {
  const trace = (attributes: Attributes) => readTraceHeaders(attributes, (name) => textOf(properties[name]))
  const attributes = propertyReader.read(Object.keys(properties), (name) => properties[name])
  if (attributes !== undefined) {
    if (contentType !== undefined) attributes['datacontenttype'] ??= contentType
    return { data: bytesOf(body), attributes: trace(attributes) }
  }
  if (isStructuredContentType(contentType)) {
    const { data, attributes: own } = structured(body)
    return { data, attributes: trace(own) }
  }
  const event = undeclaredEvent(body)
  if (event !== undefined) return { data: event.data, attributes: trace(event.attributes) }
  return {
    data: bytesOf(body),
    attributes: trace({ ...definedAttributes(foreign), ...definedAttributes({ datacontenttype: contentType }) }),
  }
}

/** A CloudEvent that the platform has parsed. Throws if it is none. */
export function eventContent(event: unknown): Content {
  if (typeof event !== 'object' || event === null || !('specversion' in event)) {
    throw new AckordError(
      'ACKORD_INVALID_MESSAGE',
      `The function must get a CloudEvent; it got ${describeValue(event)}. Check its trigger.`,
    )
  }
  return structured(event)
}

/** Numbers that JavaScript cannot represent were rounded by the platform, where it has parsed the JSON. */
function structured(event: unknown): Content {
  if (event instanceof Uint8Array || typeof event === 'string') return parsed(event)
  const { data, ...others } = event as { readonly data?: unknown }
  // Objects of the CloudEvents SDK have `toJSON()`.
  return parsed(
    data instanceof Uint8Array ? JSON.stringify({ ...others, data_base64: bufferOf(data).toString('base64') }) : JSON.stringify(event),
  )
}

function parsed(text: string | Uint8Array): Content {
  const { data, attributes } = parseMessage(text)
  return { data, attributes }
}

/** A complete CloudEvent without a content type, as other tools send it. */
function undeclaredEvent(body: unknown): Content | undefined {
  const isHinted = typeof body === 'string' ? /^\s*\{/.test(body) && body.includes('"specversion"') : isParsedEvent(body)
  if (!isHinted) return undefined
  try {
    const event = structured(body)
    return missingAttributes(event.attributes).length === 0 ? event : undefined
  } catch {
    return undefined
  }
}

function isParsedEvent(body: unknown): boolean {
  return typeof body === 'object' && body !== null && !(body instanceof Uint8Array) && 'specversion' in body
}

/** Bytes as they are, text as UTF-8, nothing as no bytes, and everything else as JSON. */
function bytesOf(body: unknown): Uint8Array {
  if (body instanceof Uint8Array) return new Uint8Array(body.buffer, body.byteOffset, body.byteLength)
  if (body instanceof ArrayBuffer) return new Uint8Array(body)
  if (body === undefined || body === null) return new Uint8Array()
  return new TextEncoder().encode(typeof body === 'string' ? body : (JSON.stringify(body) ?? ''))
}

/** A text, or `undefined`. */
export function textOf(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined
}

/** A count of deliveries, or `undefined`. */
export function countOf(value: unknown): number | undefined {
  return typeof value === 'number' && value >= 1 ? value : undefined
}

/** An instant in ISO 8601, or `undefined`. */
export function instantOf(value: unknown): string | undefined {
  const time = value instanceof Date ? value.getTime() : typeof value === 'string' ? Date.parse(value) : Number.NaN
  return Number.isNaN(time) ? undefined : new Date(time).toISOString()
}
