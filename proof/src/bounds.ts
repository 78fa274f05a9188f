/** Compares figures with their bounds and remembers which are broken, so that a run shows all of them. */
export class Bounds {
  readonly broken: string[] = []

  atMost(what: string, value: number, bound: number): void {
    if (!(value <= bound)) this.#breaks(`${what} is ${value}, and may be ${bound} at most`)
  }

  atLeast(what: string, value: number, bound: number): void {
    if (!(value >= bound)) this.#breaks(`${what} is ${value}, and must be ${bound} at least`)
  }

  #breaks(line: string): void {
    this.broken.push(line)
    console.error(`BROKEN: ${line}`)
  }
}
