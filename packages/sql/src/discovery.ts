/** Milliseconds. While there is enough to do, others are looked for as often as this. */
const whileBusy = 500

/** When to look for destinations, keys and partitions that are not known yet. */
export class Discovery {
  #anyKeys = false
  #at = -Infinity

  /** Whether there are records with a key, as far as is known. */
  get anyKeys(): boolean {
    return this.#anyKeys
  }

  isDue(now: number, { busy }: { readonly busy: boolean }): boolean {
    // A clock that was set back says nothing.
    return !busy || Math.abs(now - this.#at) >= whileBusy
  }

  done(anyKeys: boolean, now: number): void {
    this.#anyKeys = anyKeys
    this.#at = now
  }
}
