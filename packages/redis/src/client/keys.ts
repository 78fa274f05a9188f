import { InvalidOptionError } from '@ackord/core'
import { describeValue } from '@ackord/core/internal'
import type { RedisArgument } from './port.ts'

/** The default tag of keys. */
export const defaultTag = 'ackord'

/**
 * `{tag}:part:part`. Keys with the same tag are in one slot of a cluster, and only those commit together. Characters that would end the tag or separate
 * two parts are encoded as `%7D`, `%3A` and `%25`, so that different parts never make the same key.
 */
export function redisKey(tag: string | number | bigint, ...parts: readonly (string | number | bigint)[]): string {
  let key = `{${encoded('tag', tag, /[%}]/)}}`
  for (const part of parts) key += `:${encoded('part', part, /[%:]/)}`
  return key
}

function encoded(what: string, value: string | number | bigint, odd: RegExp): string {
  if (typeof value !== 'string') {
    if (typeof value === 'bigint' || Number.isFinite(value)) return String(value)
    throw new InvalidOptionError(`A ${what} of key()`, `must be a string, a finite number or a bigint; it is ${describeValue(value)}.`)
  }
  // Redis ignores an empty tag: the whole key would select the slot.
  if (value === '' && what === 'tag') throw new InvalidOptionError('The tag of key()', 'must not be empty.')
  return odd.test(value) ? value.replaceAll('%', '%25').replaceAll(what === 'tag' ? '}' : ':', what === 'tag' ? '%7D' : '%3A') : value
}

const slots = 16_384

const table: readonly number[] = Array.from({ length: 256 }, (_, byte) => {
  let crc = byte << 8
  for (let bit = 0; bit < 8; bit += 1) crc = crc & 0x8000 ? ((crc << 1) ^ 0x1021) & 0xffff : (crc << 1) & 0xffff
  return crc
})

/** The slot of a key, as CLUSTER KEYSLOT reports it. The key is the one that the server sees, with any prefix. */
export function keySlot(key: RedisArgument): number {
  const bytes = typeof key === 'string' ? Buffer.from(key) : key
  const tagged = hashTagBytes(bytes)
  let crc = 0
  for (const byte of tagged) crc = ((crc << 8) & 0xffff) ^ (table[((crc >> 8) ^ byte) & 0xff] as number)
  return crc % slots
}

/** The text between the first `{` and the next `}`, unless it is empty. */
function hashTagBytes(key: Buffer): Buffer {
  const open = key.indexOf('{')
  if (open === -1) return key
  const close = key.indexOf('}', open + 1)
  return close <= open + 1 ? key : key.subarray(open + 1, close)
}

/** The slots of keys as the server sees them: with the client's prefix. */
export class KeySpace {
  readonly #prefix: string
  readonly #checked: boolean
  // With a tag in the prefix all keys are in its slot.
  readonly #oneSlot: boolean
  // Whether the tag of a key selects its slot, whatever is before it.
  readonly #byTag: boolean
  // Numbers that are tags of a slot, found by trying.
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

  /** A key with this name in the slot of another one. */
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
    // Most keys have the same tag, and comparing tags is faster than computing slots.
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
