import { InvalidOptionError } from '@ackord/core'
import { describeValue } from '@ackord/core/internal'
import type { RedisArgument } from './port.ts'

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

const slots = 16_384

const table: readonly number[] = Array.from({ length: 256 }, (_, byte) => {
  let crc = byte << 8
  for (let bit = 0; bit < 8; bit += 1) crc = crc & 0x8000 ? ((crc << 1) ^ 0x1021) & 0xffff : (crc << 1) & 0xffff
  return crc
})

/** The slot of a cluster that a key is in, as CLUSTER KEYSLOT tells it. The key is the one the server sees, with any prefix. */
export function keySlot(key: RedisArgument): number {
  const bytes = typeof key === 'string' ? Buffer.from(key) : key
  const tagged = hashTagBytes(bytes)
  let crc = 0
  for (const byte of tagged) crc = ((crc << 8) & 0xffff) ^ (table[((crc >> 8) ^ byte) & 0xff] as number)
  return crc % slots
}

/** What is between the first `{` and the next `}`, unless there is nothing between them. */
function hashTagBytes(key: Buffer): Buffer {
  const open = key.indexOf('{')
  if (open === -1) return key
  const close = key.indexOf('}', open + 1)
  return close <= open + 1 ? key : key.subarray(open + 1, close)
}

/** Where keys are, as the server sees them: with the client's prefix. */
export class KeySpace {
  readonly #prefix: string
  readonly #checked: boolean
  // With a tag in the prefix all keys are in its slot.
  readonly #oneSlot: boolean
  // Whether the tag of a key decides, whatever is before it.
  readonly #byTag: boolean
  // Numbers that are tags of the slot, found by trying.
  readonly #tags = new Map<number, number>()

  constructor(prefix: string, { checked }: { readonly checked: boolean }) {
    this.#prefix = prefix
    this.#checked = checked
    this.#oneSlot = hashTag(prefix) !== undefined
    this.#byTag = !prefix.includes('{')
  }

  slotOf(key: RedisArgument): number {
    if (this.#prefix === '') return keySlot(key)
    return keySlot(typeof key === 'string' ? this.#prefix + key : Buffer.concat([Buffer.from(this.#prefix), key]))
  }

  /** A key of this name in the slot of another one. */
  beside(key: RedisArgument, name: string): string {
    if (!this.#checked || this.#oneSlot) return name
    const tag = this.#byTag && typeof key === 'string' ? hashTag(key) : undefined
    if (tag !== undefined) return `{${tag}}:${name}`
    const slot = this.slotOf(key)
    for (let number = this.#tags.get(slot) ?? 0; ; number += 1) {
      const candidate = `{${number}}:${name}`
      if (this.slotOf(candidate) !== slot) continue
      this.#tags.set(slot, number)
      return candidate
    }
  }

  /** Whether two keys may be in one transaction. */
  together(one: RedisArgument, other: RedisArgument): boolean {
    if (!this.#checked || this.#oneSlot || one === other) return true
    // Most have the same tag, which is quicker to see than to compute.
    if (this.#byTag && typeof one === 'string' && typeof other === 'string') {
      const tag = hashTag(one)
      if (tag !== undefined && tag === hashTag(other)) return true
    }
    return this.slotOf(one) === this.slotOf(other)
  }
}

function hashTag(key: string): string | undefined {
  const open = key.indexOf('{')
  if (open === -1) return undefined
  const close = key.indexOf('}', open + 1)
  return close <= open + 1 ? undefined : key.slice(open + 1, close)
}
