import { AckordError, describeValue } from '../errors.ts'
import { escapeText } from '../escape-text.ts'
import { type Attributes, type AttributeValue, checkAttributes } from './attributes.ts'
import type { Marshaler } from './marshaler.ts'
import { type Message, type RawMessage, withData } from './message.ts'

/** Converts bytes to data. Unreadable data is the message's own fault: the error is not retryable, so the router rejects it. */
export function unmarshal(raw: RawMessage, marshaler: Marshaler): Message {
  if (!(raw.data instanceof Uint8Array)) {
    // The source is at fault, not the message.
    const found = describeValue(raw.data)
    throw new AckordError(
      'ACKORD_WRONG_DATA',
      `A source must yield bytes, and ${describeMessage(raw)} has ${found}. Typed messages go to pipe() or an engine's input.`,
    )
  }
  const contentType = raw.dataContentType
  if (contentType !== undefined && !marshaler.accepts(contentType)) {
    throw new AckordError(
      'ACKORD_UNMARSHAL_FAILED',
      `The marshaler cannot read the content type '${escapeText(contentType, 100)}' of ${describeMessage(raw)} (it writes '${marshaler.contentType}'). Configure the router with a marshaler that accepts it.`,
      { retryable: false },
    )
  }
  let data: unknown
  try {
    data = marshaler.unmarshal(raw.data, contentType)
  } catch (cause) {
    throw new AckordError(
      'ACKORD_UNMARSHAL_FAILED',
      `Cannot read the data of ${describeMessage(raw)} as ${escapeText(contentType ?? marshaler.contentType, 100)}.`,
      {
        retryable: false,
        cause,
      },
    )
  }
  return withData(raw, data, raw.attributes)
}

/** Converts data to bytes; bytes stay as they are. Rejects invalid attributes, sets `datacontenttype`, keeps acking and values. */
export function marshal(message: Message, marshaler: Marshaler): RawMessage {
  checkAttributes(message.attributes, () => describeMessage(message))
  return marshalAsIs(message, marshaler)
}

/** For dead letters: invalid attributes must not prevent a message from reaching its dead letter. */
export function marshalAsIs(message: Message, marshaler: Marshaler): RawMessage {
  const { data, attributes } = message
  if (data instanceof Uint8Array) {
    const datacontenttype = attributes.datacontenttype ?? 'application/octet-stream'
    return withData(message, data, withContentType(attributes, datacontenttype))
  }
  let bytes: Uint8Array
  try {
    bytes = marshaler.marshal(data)
  } catch (cause) {
    throw new AckordError('ACKORD_MARSHAL_FAILED', `Cannot write the data of ${describeMessage(message)} as ${marshaler.contentType}.`, {
      cause,
    })
  }
  return withData(message, bytes, withContentType(attributes, marshaler.contentType))
}

/**
 * Named before the others are spread: adding a property to a copy afterwards gives every copy a hidden class of its own on Node 20, which takes ten
 * times as long and fills the old space.
 */
function withContentType(attributes: Attributes, datacontenttype: string): Attributes {
  const copy: Record<string, AttributeValue | undefined> = { datacontenttype, ...attributes }
  copy['datacontenttype'] = datacontenttype
  return copy
}

/** The error for a message that cannot be accepted. `problem` continues a sentence about it, such as 'cannot be stored: its id is empty'. */
export function invalidMessageError(message: Message, problem: string): AckordError {
  const text = `${describeMessage(message)} ${problem}.`
  return new AckordError('ACKORD_INVALID_ATTRIBUTES', text[0]?.toUpperCase() + text.slice(1))
}

/** Describes a message in error texts and logs: by type and id, never by content. */
export function describeMessage({ type, id }: Message): string {
  const kind = type === undefined ? 'a message without type' : `a message of type '${escapeText(type, 100)}'`
  return id === undefined ? kind : `${kind} (id '${escapeText(id, 100)}')`
}
