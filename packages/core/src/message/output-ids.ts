import { hash } from 'node:crypto'
import { type ContextKey, contextKey } from './context.ts'

/** Returns the id of the next output. */
export type OutputIds = (type: string) => string

/** Set by an inbox, so that handling the same message again gives its outputs the same ids, and the next consumer's inbox drops them. */
export const outputIdsKey: ContextKey<OutputIds> = contextKey('ackord.outputIds', { callScoped: true })

/**
 * UUIDv5 of the JSON of `[consumer, source, id, index, type]`, where the index counts the outputs of one attempt, including those that middleware
 * adds: create one per attempt, and a re-run that produces the same outputs gives them the same ids.
 */
export function deterministicIds(consumer: string, source: string, id: string): OutputIds {
  let index = -1
  return (type) => {
    index += 1
    return uuidV5(JSON.stringify([consumer, source, id, index, type]))
  }
}

// Ackord's own namespace: a UUIDv5 needs one, and must not collide with ids of other systems.
const namespace = Buffer.from('7c0f3a6e2b5d4e1f9a8b6c4d2e0f1a3b', 'hex')

const scratch = Buffer.concat([namespace], 1024)
const maxBytesPerUnit = 3

/** Most names fit behind the namespace in a preallocated buffer. */
function bytesOf(name: string): Buffer {
  const start = namespace.length
  if (name.length * maxBytesPerUnit > scratch.length - start) return Buffer.concat([namespace, Buffer.from(name)])
  return scratch.subarray(0, start + scratch.write(name, start))
}

function uuidV5(name: string): string {
  const hex = hash('sha1', bytesOf(name), 'hex')
  // The version, 5, and the two bits of the variant.
  const variant = ((Number.parseInt(hex.charAt(16), 16) & 0x3) | 0x8).toString(16)
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-5${hex.slice(13, 16)}-${variant}${hex.slice(17, 20)}-${hex.slice(20, 32)}`
}
