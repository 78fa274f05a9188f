import { hash } from 'node:crypto'
import type { InboxKey } from '@ackord/outbox'
import { redisKey } from '../client/keys.ts'

/**
 * `{tag}:inbox:consumer:hash`. Every message has a marker for the whole retention, so its key is short: half of a SHA-256
 * has enough bits that two messages never collide.
 */
export function markerMaker(consumer: string): (tag: string, key: Pick<InboxKey, 'source' | 'id'>) => string {
  // Most messages have the tag of the one before.
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
