/** The log of a history, line by line. The same plan always produces the same lines. */
export class Trace {
  readonly #lines: [at: number, who: string, what: string][] = []
  readonly #now: () => number
  readonly #start: number

  constructor(now: () => number) {
    this.#now = now
    this.#start = now()
  }

  add(who: string, what: string): void {
    this.#lines.push([this.#now() - this.#start, who, what])
  }

  format(): string {
    return this.#lines.map(([at, who, what]) => `${(at / 1000).toFixed(3).padStart(9)} s  ${who.padEnd(12)} ${what}\n`).join('')
  }
}

/** Random numbers determined by a seed. Streams with different names are independent: drawing from one does not change the others. */
export class RandomStream {
  #state: number

  constructor(seed: number, ...name: readonly (number | string)[]) {
    this.#state = mix(seed, name)
  }

  /** From 0 (inclusive) to 1 (exclusive). */
  readonly next = (): number => {
    this.#state = (this.#state + 0x9e3779b9) | 0
    let bits = this.#state
    bits = Math.imul(bits ^ (bits >>> 16), 0x21f0aaad)
    bits = Math.imul(bits ^ (bits >>> 15), 0x735a2d97)
    return ((bits ^ (bits >>> 15)) >>> 0) / 4_294_967_296
  }

  /** An integer, both bounds included. */
  between(least: number, most: number): number {
    return least + Math.floor(this.next() * (most - least + 1))
  }

  /** True with this probability. */
  chance(probability: number): boolean {
    return this.next() < probability
  }

  pick<T>(values: readonly [T, ...T[]]): T {
    return values[Math.floor(this.next() * values.length)] ?? values[0]
  }
}

function mix(seed: number, name: readonly (number | string)[]): number {
  let state = Math.imul(seed ^ 0x5bd1e995, 0x01000193)
  for (const character of name.join('\0')) state = Math.imul(state ^ (character.codePointAt(0) ?? 0), 0x01000193) ^ (state >>> 13)
  return state
}
