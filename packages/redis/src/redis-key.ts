import { InvalidOptionError } from '@ackord/core'
import { describeValue } from '@ackord/core/internal'

/** The tag of keys that were given none of their own. */
export const defaultTag = 'ackord'

/**
 * `{tag}:part:part`. Keys of one tag are in one slot of a cluster, and only those commit together. What would end the tag, or be taken for
 * the border of two parts, is written as `%7D`, `%3A` and `%25`, so that different parts never make the same key.
 */
export function redisKey(tag: string | number | bigint, ...parts: readonly (string | number | bigint)[]): string {
  let key = `{${encoded('tag', tag, /[%}]/)}}`
  for (const part of parts) key += `:${encoded('part', part, /[%:]/)}`
  return key
}

function encoded(what: string, value: string | number | bigint, odd: RegExp): string {
  if (typeof value !== 'string') {
    if (typeof value === 'bigint' || Number.isFinite(value)) return String(value)
    throw new InvalidOptionError(`A ${what} of key()`, `must be a text, a finite number or a bigint; it is ${describeValue(value)}.`)
  }
  // An empty tag is none: the whole key would decide on the slot.
  if (value === '' && what === 'tag') throw new InvalidOptionError('The tag of key()', 'must not be empty.')
  return odd.test(value) ? value.replaceAll('%', '%25').replaceAll(what === 'tag' ? '}' : ':', what === 'tag' ? '%7D' : '%3A') : value
}
