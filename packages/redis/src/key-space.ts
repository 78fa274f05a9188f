import { keySlot } from './key-slot.ts'
import type { RedisArgument } from './port.ts'

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
    this.#oneSlot = tagOf(prefix) !== undefined
    this.#byTag = !prefix.includes('{')
  }

  slotOf(key: RedisArgument): number {
    if (this.#prefix === '') return keySlot(key)
    return keySlot(typeof key === 'string' ? this.#prefix + key : Buffer.concat([Buffer.from(this.#prefix), key]))
  }

  /** A key of this name in the slot of another one. */
  beside(key: RedisArgument, name: string): string {
    if (!this.#checked || this.#oneSlot) return name
    const tag = this.#byTag && typeof key === 'string' ? tagOf(key) : undefined
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
      const tag = tagOf(one)
      if (tag !== undefined && tag === tagOf(other)) return true
    }
    return this.slotOf(one) === this.slotOf(other)
  }
}

function tagOf(key: string): string | undefined {
  const open = key.indexOf('{')
  if (open === -1) return undefined
  const close = key.indexOf('}', open + 1)
  return close <= open + 1 ? undefined : key.slice(open + 1, close)
}
