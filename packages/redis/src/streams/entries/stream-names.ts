import { InvalidOptionError } from '@ackord/core'
import { keySlot } from '../../client/keys.ts'

/** The streams of a name. On a cluster each shard is placed by its own name; with a hash tag in the name all are in one slot. */
export function shardNames(stream: string, shards: number | undefined): readonly string[] {
  if (shards === undefined) return [stream]
  return Array.from({ length: shards }, (_, index) => shardName(stream, index))
}

export function shardName(stream: string, index: number): string {
  return `${stream}:${index}`
}

/** The shard of a key: FNV-1a of its UTF-8 bytes. A part of the format: a change would break the order of every key. */
export function shardOf(key: string, shards: number): number {
  let hash = 0x811c9dc5
  for (const byte of Buffer.from(key)) hash = Math.imul(hash ^ byte, 0x01000193) >>> 0
  return hash % shards
}

/** A key in the slot of the stream, so that one script can change both. */
export function companionKey(keyPrefix: string, stream: string, suffix: string): string {
  const slot = keySlot(keyPrefix + stream)
  // Unchanged if the name has a hash tag. Otherwise the whole name, with the client's prefix, becomes the tag.
  const candidates = [`${stream}:${suffix}`, `{${keyPrefix}${stream}}:${suffix}`]
  const found = candidates.find((candidate) => keySlot(keyPrefix + candidate) === slot && isTagged(keyPrefix + candidate))
  if (found !== undefined) return found
  throw new InvalidOptionError(
    'stream',
    `'${stream}' has braces that are no hash tag: other keys cannot be put beside it. Name it otherwise.`,
  )
}

/** Rejects a key in another slot than the stream: no script could reach both. */
export function checkSameSlot(option: string, keyPrefix: string, stream: string, key: string): void {
  if (keySlot(keyPrefix + stream) === keySlot(keyPrefix + key)) return
  throw new InvalidOptionError(
    option,
    `'${key}' must be in the slot of the stream '${stream}'. Give both the same hash tag, such as '{orders}:dead' for '{orders}', or use a publisher.`,
  )
}

function isTagged(key: string): boolean {
  const open = key.indexOf('{')
  return open !== -1 && key.indexOf('}', open + 1) > open + 1
}
