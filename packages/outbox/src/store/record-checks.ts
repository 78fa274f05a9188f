import { AckordError, type Attributes, InvalidOptionError, type RawMessage } from '@ackord/core'
import { checkDuration, describeMessage, describeValue } from '@ackord/core/internal'
import type { NewEventOptions, NewOutboxRecord } from './new-events.ts'
import type { RearmOptions } from './outbox-admin.ts'
import type { EventReferences, OutboxReference } from './outbox-store.ts'

/** The default of every store's `maxSize`, in bytes. */
export const defaultMaxSize = 5_242_880

/** Attributes in the JSON form of CloudEvents: instants as RFC 3339, bytes as base64. */
export function attributesToJson(attributes: Attributes): string {
  // No JSON replacer: it would be called for every attribute, and hardly any are bytes.
  for (const name in attributes) if (attributes[name] instanceof Uint8Array) return JSON.stringify(withTexts(attributes))
  return JSON.stringify(attributes)
}

/**
 * For stores, before anything is written: throws if data, attributes and destination of a record exceed `maxSize` bytes. The broker would reject such
 * a record permanently, long after its transaction has ended. `attributes`: those of the message, by `attributesToJson()`.
 */
export function checkRecordSize({ destination, message }: NewOutboxRecord, attributes: string, maxSize: number): void {
  const { byteLength } = message.data
  // A UTF-16 code unit has at most three bytes in UTF-8: most texts need not be measured.
  if (byteLength + 3 * (attributes.length + destination.length) <= maxSize) return
  const size = byteLength + Buffer.byteLength(attributes) + Buffer.byteLength(destination)
  if (size > maxSize) throw tooLarge(message, size, maxSize)
}

function withTexts(attributes: Attributes): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(attributes).map(([name, value]) => [name, value instanceof Uint8Array ? Buffer.from(value).toString('base64') : value]),
  )
}

function tooLarge(message: RawMessage, size: number, maxSize: number): AckordError {
  const text = `Cannot store ${describeMessage(message)} in the outbox: its size is ${size} bytes, and maxSize is ${maxSize}. Store large data elsewhere, and send a reference to it.`
  return new AckordError('ACKORD_INVALID_OUTPUT', text, { retryable: false })
}

/** For stores: the error that `list()` throws if `after` is not the `next` cursor of an earlier page. */
export function invalidCursor(after: string): InvalidOptionError {
  return new InvalidOptionError(
    'after',
    `is an invalid cursor: it must be the \`next\` of an earlier page, or omitted; it is ${JSON.stringify(after)}.`,
  )
}

/** Throws if the options are invalid. Returns them. */
export function checkRearm(options: RearmOptions): RearmOptions {
  const { state = 'parked', delay = 0, keepAttempts = false } = options
  if (state !== 'parked' && state !== 'published') {
    throw new InvalidOptionError('state', `must be 'parked' or 'published'; it is ${String(state)}.`)
  }
  checkDuration('delay', delay)
  if (typeof keepAttempts !== 'boolean')
    throw new InvalidOptionError('keepAttempts', `must be true or false; it is ${String(keepAttempts)}.`)
  return options
}

/** Completes the argument of `cancel()`. Throws if a reference is incomplete: a typo would otherwise look like a record that no longer exists. */
export function completeReferences(
  references: EventReferences,
  { source, destination }: Pick<NewEventOptions, 'source' | 'destination'> = {},
): readonly OutboxReference[] {
  const fixed = typeof destination === 'function' ? undefined : destination
  return [references].flat().map((reference: Partial<OutboxReference> | undefined) => {
    if (typeof reference !== 'object' || reference === null)
      throw new InvalidOptionError(
        'references',
        `must be { id }, or { destination, source, id }, or an array of these; it has ${describeValue(reference)}.`,
      )
    return {
      destination: part(
        'destination',
        reference.destination ?? fixed,
        destination === undefined ? 'the outbox has none' : 'that of the outbox is a function',
      ),
      source: part('source', reference.source ?? source, 'the outbox has none'),
      id: part('id', reference.id),
    }
  })
}

/** `missing`: why there is no default. */
function part(name: string, value: unknown, missing?: string): string {
  if (typeof value === 'string' && value !== '') return value
  const why = value === undefined && missing !== undefined ? `: ${missing}` : ''
  throw new InvalidOptionError(`references[].${name}`, `must be a non-empty string${why}.`)
}
