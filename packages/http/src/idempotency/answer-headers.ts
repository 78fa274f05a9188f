import { groupBy } from '@ackord/core/internal'

/** Pairs of a name in lower case and a value; a name may occur several times. */
export type HeaderList = readonly (readonly [name: string, value: string])[]

/** Headers of one connection or one message on it (RFC 9110, 7.6.1), which the server writes itself. */
const ofConnection = new Set([
  'connection',
  'content-length',
  'date',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
])

/** As Node keeps headers: a value may be a number or an array. */
export function toHeaderList(headers: Readonly<Record<string, number | string | readonly string[] | undefined>>): HeaderList {
  return Object.entries(headers).flatMap(([name, value]) => {
    const values = Array.isArray(value) ? value : value === undefined ? [] : [value]
    return values.map((each) => [name.toLowerCase(), String(each)] as const)
  })
}

/**
 * The headers that the work has added or changed. What was there before is not part of the answer: it belongs to the request at hand, such as its id, or what
 * CORS allows its origin.
 */
export function headersSince(before: HeaderList, after: HeaderList): HeaderList {
  const [old, now] = [byName(before), byName(after)]
  const added: [string, string][] = []
  for (const [name, values] of now) {
    const known = old.get(name) ?? []
    const isOld = name === 'set-cookie' ? (value: string) => known.includes(value) : () => sameValues(known, values)
    if (!ofConnection.has(name)) for (const value of values) if (!isOld(value)) added.push([name, value])
  }
  return added
}

/** The headers to send: an answer replaces those that were there before, except for cookies, which it adds to them. */
export function mergeHeaders(before: HeaderList, answer: HeaderList): Map<string, readonly string[]> {
  const merged = byName(before)
  for (const [name, values] of byName(answer)) merged.set(name, name === 'set-cookie' ? [...(merged.get(name) ?? []), ...values] : values)
  return merged
}

/** Without cookies: who sends the request again must not get the session of who has sent it first. */
export function storedHeaders(headers: HeaderList): HeaderList {
  return headers.filter(([name]) => name !== 'set-cookie')
}

function byName(headers: HeaderList): Map<string, string[]> {
  const named = groupBy(headers, ([name]) => name)
  return new Map(named.map(([name, all]) => [name, all.map(([, value]) => value)]))
}

function sameValues(one: readonly string[], other: readonly string[]): boolean {
  return one.length === other.length && one.every((value, index) => value === other[index])
}
