import type { Reply } from './port.ts'

/** A client's reply to a command in the form of RESP2. Clients that speak RESP3 return its maps as a `Map`, an object or a flat list. */
export function toReply(command: string, value: unknown): Reply {
  const reply = flattened(value)
  return command === 'XREADGROUP' || command === 'XREAD' ? inPairs(reply) : reply
}

/** The items of a reply that is a list; none for other replies. */
export function asList(reply: Reply | undefined): readonly Reply[] {
  return Array.isArray(reply) ? reply : []
}

/** Maps as `[key, value, key, value, …]`, the form of most of them in RESP2. */
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

/** `[stream, entries, …]` as `[[stream, entries], …]`, the form of this one in RESP2. */
function inPairs(reply: Reply): Reply {
  if (!Array.isArray(reply) || Array.isArray(reply[0])) return reply
  return Array.from({ length: reply.length / 2 }, (_, index) => [reply[2 * index], reply[2 * index + 1]])
}

// Clients have error classes of their own, and before 7.0 an error in a script has another class: only the word is reliable.

/** Whether the error has one of these words, such as `OOM` or `NOGROUP`. */
export function says(error: unknown, ...words: readonly string[]): boolean {
  const text = error instanceof Error ? error.message : String(error)
  return words.some((word) => new RegExp(`\\b${word}\\b`).test(text))
}

/** Why a call failed, as far as its error says. */
export interface CallFailure {
  /**
   * - `refusesWrites`: the server accepts no writes at the moment: out of memory, read only, or without the replicas that it needs
   * - `server`: the server answered with another error
   * - `process`: the call failed in this process, and would fail again
   * - `unanswered`: there was no answer, or no connection
   */
  readonly kind: 'refusesWrites' | 'server' | 'process' | 'unanswered'
  readonly text: string
}

/** The server's errors begin with a word in capitals. A cluster client that gives up puts the last one behind words of its own. */
const serverError = /(?:^|Last error: (?:\w+: )?)-?([A-Z][A-Z0-9]+ .*)$/s

export function callFailureOf(error: unknown): CallFailure {
  if (!(error instanceof Error)) return { kind: 'unanswered', text: String(error) }
  const [, text] = serverError.exec(error.message) ?? []
  if (text !== undefined) return { kind: isRefusalOfWrites(text) ? 'refusesWrites' : 'server', text }
  const ours = error instanceof RangeError || error instanceof TypeError
  return { kind: ours ? 'process' : 'unanswered', text: error.message }
}

/** Whether this is the answer of a server that accepts no writes at all. */
export function isRefusalOfWrites(text: string): boolean {
  return /^-?(?:OOM|READONLY|NOREPLICAS|MISCONF)\b/.test(text)
}
