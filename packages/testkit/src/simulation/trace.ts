/** What happened, line by line. The same plan gives the same lines. */
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
