import { AckordError, type Message } from '@ackord/core'
import { nameOf } from '@ackord/core/internal'

/** Identifies a message for a consumer. Compared byte for byte. */
export interface InboxKey {
  readonly consumer: string
  readonly source: string
  readonly id: string
}

/** A key of one consumer as a unique string. */
export function textOf({ source, id }: InboxKey): string {
  return `${source.length} ${source}${id}`
}

/** In bytes. Together with the consumer's name, keys fit into an index entry of every database. */
const maxKeyPartBytes = 1024

/** The message's source and id, or the result of `key`. Throws a non-retryable error for a message that no inbox could identify. */
export function inboxKeyOf(message: Message, consumer: string, key: ((message: Message) => string) | undefined): InboxKey {
  if (key !== undefined) return { consumer, source: '', id: checkPart(message, 'inbox key', key(message)) }
  const { source = '' } = message.attributes
  if (source !== '') checkPart(message, 'source', source)
  return { consumer, source, id: checkPart(message, 'id', message.attributes.id) }
}

function checkPart(message: Message, part: string, value: unknown): string {
  if (value === undefined || value === null || value === '') {
    throw new AckordError('ACKORD_MISSING_ATTRIBUTE', `The inbox cannot recognise ${nameOf(message)}: it has no ${part}.`, {
      retryable: false,
    })
  }
  const problem = problemOf(value)
  if (problem === undefined) return value as string
  throw new AckordError('ACKORD_INVALID_ATTRIBUTES', `The inbox cannot recognise ${nameOf(message)}: its ${part} ${problem}.`, {
    retryable: false,
  })
}

/** The reason why a value cannot be stored in a text column unchanged; `undefined` if it can. */
export function problemOf(value: unknown, maxBytes: number = maxKeyPartBytes): string | undefined {
  if (typeof value !== 'string') return 'is not a string'
  if (value.includes('\0')) return 'contains a NUL character'
  // Encoding turns every lone surrogate into the same replacement character, so two different ids would become one.
  if (!value.isWellFormed()) return 'is not well-formed Unicode'
  // A UTF-16 unit takes at most three bytes, so most strings need not be measured.
  const isLong = value.length * 3 > maxBytes && Buffer.byteLength(value) > maxBytes
  return isLong ? `is longer than ${maxBytes} bytes` : undefined
}
