import { hash } from 'node:crypto'
import { AckordError, type Message } from '@ackord/core'
import { describeValue, nameOf } from '@ackord/core/internal'
import { redisKey } from './redis-key.ts'

/** What makes a message the same one for a consumer. Compared byte for byte. */
export interface InboxKey {
  readonly source: string
  readonly id: string
}

/** The message's source and id, or what `key` gives in their place. Throws, and not to be retried, at what no inbox could tell apart. */
export function inboxKeyOf(message: Message, key: ((message: Message) => string) | undefined): InboxKey {
  if (key !== undefined) return { source: '', id: checkPart(message, 'inbox key', key(message)) }
  const { source = '', id } = message.attributes
  if (typeof source !== 'string') checkPart(message, 'source', source)
  return { source, id: checkPart(message, 'id', id) }
}

/**
 * `{tag}:inbox:consumer:hash`. A marker stays for as long as the window is, one per message, so that its key is short: half of a SHA-256
 * has enough bits that no two messages ever meet.
 */
export function markerMaker(consumer: string): (tag: string, key: InboxKey) => string {
  // Most have the tag of the one before.
  let lastTag: string | undefined
  let start = ''
  return (tag, { source, id }) => {
    if (tag !== lastTag) {
      start = redisKey(tag, 'inbox', consumer, '')
      lastTag = tag
    }
    return start + hash('sha256', JSON.stringify([source, id]), 'base64url').slice(0, 22)
  }
}

function checkPart(message: Message, part: string, value: unknown): string {
  if (typeof value === 'string' && value !== '') return value
  const missing = value === undefined || value === null || value === ''
  throw new AckordError(
    missing ? 'ACKORD_MISSING_ATTRIBUTE' : 'ACKORD_INVALID_ATTRIBUTES',
    `The inbox cannot recognise ${nameOf(message)}: ${missing ? `it has no ${part}` : `its ${part} is ${describeValue(value)}, not a text`}.`,
    { retryable: false },
  )
}
