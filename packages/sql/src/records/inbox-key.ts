import { AckordError, type Message } from '@ackord/core'
import { nameOf } from '@ackord/core/internal'

/** What makes a message the same one for a consumer. Compared byte for byte. */
export interface InboxKey {
  readonly consumer: string
  readonly source: string
  readonly id: string
}

/** A key of one consumer as a text, of which no two are the same. */
export function textOf({ source, id }: InboxKey): string {
  return `${source.length} ${source}${id}`
}

/** In bytes. Together with the consumer's name they fit into an index entry of every database. */
const longestKeyPart = 1024

/** The message's source and id, or what `key` gives in their place. Throws, and not to be retried, at what no inbox could tell apart. */
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

/** What keeps a value from being stored in a text column as it is; `undefined` if nothing does. */
export function problemOf(value: unknown, longest: number = longestKeyPart): string | undefined {
  if (typeof value !== 'string') return 'is not a text'
  if (value.includes('\0')) return 'holds a NUL character'
  // Encoded, every lone surrogate becomes the same replacement character, and two different ids one.
  if (!value.isWellFormed()) return 'is not well-formed Unicode'
  // A UTF-16 unit takes three bytes at most, so that most need not be measured.
  const isLong = value.length * 3 > longest && Buffer.byteLength(value) > longest
  return isLong ? `is longer than ${longest} bytes` : undefined
}
