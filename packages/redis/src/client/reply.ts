import type { Reply } from './port.ts'

/** A client's reply to a command in the shape of RESP2. Clients that speak RESP3 give its maps as a `Map`, an object or a flat list. */
export function toReply(command: string, value: unknown): Reply {
  const reply = flattened(value)
  return command === 'XREADGROUP' || command === 'XREAD' ? inPairs(reply) : reply
}

/** What a command gave that answers with a list; empty when the answer was none. */
export function asList(reply: Reply | undefined): readonly Reply[] {
  return Array.isArray(reply) ? reply : []
}

/** Maps as `[key, value, key, value, …]`, as RESP2 has most of them. */
function flattened(value: unknown): Reply {
  if (value === undefined) return null
  if (typeof value !== 'object' || value === null || Buffer.isBuffer(value)) return value as Reply
  if (Array.isArray(value)) return value.some(isNested) ? value.map(flattened) : value
  const entries: Iterable<[unknown, unknown]> = value instanceof Map ? value : Object.entries(value)
  return Array.from(entries, ([key, item]) => [flattened(key), flattened(item)]).flat()
}

function isNested(item: unknown): boolean {
  return item === undefined || (typeof item === 'object' && item !== null && !Buffer.isBuffer(item))
}

/** `[stream, entries, …]` as `[[stream, entries], …]`, as RESP2 has this one. */
function inPairs(reply: Reply): Reply {
  if (!Array.isArray(reply) || Array.isArray(reply[0])) return reply
  return Array.from({ length: reply.length / 2 }, (_, index) => [reply[2 * index], reply[2 * index + 1]])
}

// The clients have classes of their own, and before 7.0 an error inside of a script comes in another one: the word is all that can be relied on.

/** Whether the server said one of these words, such as `OOM` or `NOGROUP`. */
export function says(error: unknown, ...words: readonly string[]): boolean {
  const text = error instanceof Error ? error.message : String(error)
  return words.some((word) => new RegExp(`\\b${word}\\b`).test(text))
}
