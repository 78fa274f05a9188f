import type { InboxKey } from '@ackord/outbox'

/** In bytes. Together with the consumer's name, keys fit into an index entry of every database. */
const maxKeyPartBytes = 1024

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

/** A key of one consumer as a unique string. */
export function textOf({ source, id }: InboxKey): string {
  return `${source.length} ${source}${id}`
}
