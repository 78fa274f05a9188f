/** How many batches may be on their way at once, whoever has them: first come, first served, so that nobody is kept out for ever. */
export class BatchSlots {
  readonly #waiting: (() => void)[] = []
  #free: number

  constructor(count: number) {
    this.#free = count
  }

  /** Resolves when there is one; it is the caller's until `release()`. */
  acquire(): Promise<void> {
    return new Promise((resolve) => {
      if (this.#free === 0) {
        this.#waiting.push(resolve)
        return
      }
      this.#free -= 1
      resolve()
    })
  }

  release(): void {
    const next = this.#waiting.shift()
    if (next === undefined) this.#free += 1
    else next()
  }
}
