import { createHash } from 'node:crypto'
import { type ContextKey, contextKey } from './context.ts'

/** Gives the next output its id. */
export type OutputIds = (type: string) => string

/** Set by an inbox, so that handling the same message again gives its outputs the same ids, and the next consumer's inbox drops them. */
export const outputIdsKey: ContextKey<OutputIds> = contextKey('ackord.outputIds', { callScoped: true })

/**
 * UUIDv5 of the JSON of `[consumer, source, id, index, type]`, where the index counts the outputs of one attempt, those that middleware adds
 * included: make one for each attempt, and a re-run that produces the same outputs gives them the same ids.
 */
export function deterministicIds(consumer: string, source: string, id: string): OutputIds {
  let index = -1
  return (type) => {
    index += 1
    return uuidV5(JSON.stringify([consumer, source, id, index, type]))
  }
}

// Ackord's own namespace: a UUIDv5 needs one, and ids of other systems must not meet ours.
const namespace = Buffer.from('7c0f3a6e2b5d4e1f9a8b6c4d2e0f1a3b', 'hex')

function uuidV5(name: string): string {
  const bytes = createHash('sha1').update(namespace).update(name).digest().subarray(0, 16)
  bytes.writeUInt8((bytes.readUInt8(6) & 0x0f) | 0x50, 6)
  bytes.writeUInt8((bytes.readUInt8(8) & 0x3f) | 0x80, 8)
  const hex = bytes.toString('hex')
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`
}
