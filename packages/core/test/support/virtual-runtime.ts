import type { Runtime } from '../../src/runtime.ts'

interface PendingTimer {
  readonly due: number
  readonly order: number
  readonly callback: () => void
}

/** A clock that stands still until a test moves it. Random numbers come from a fixed seed, ids are counted. */
export class VirtualRuntime implements Runtime {
  #now: number
  #order = 0
  #ids = 0
  #seed: number
  readonly #timers = new Set<PendingTimer>()

  constructor(start: number = Date.UTC(2026, 0, 1), seed = 1) {
    this.#now = start
    this.#seed = seed
  }

  now = (): number => this.#now

  random = (): number => {
    // mulberry32: small, and good enough to spread delays.
    this.#seed = (this.#seed + 0x6d2b79f5) | 0
    let t = Math.imul(this.#seed ^ (this.#seed >>> 15), 1 | this.#seed)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296
  }

  uuid = (): string => {
    this.#ids += 1
    return `00000000-0000-4000-8000-${String(this.#ids).padStart(12, '0')}`
  }

  setTimeout = (callback: () => void, delay: number): { cancel(): void } => {
    this.#order += 1
    const timer = { due: this.#now + delay, order: this.#order, callback }
    this.#timers.add(timer)
    return { cancel: () => void this.#timers.delete(timer) }
  }

  /** How many timers wait: a test that ends with some has leaked them. */
  get timers(): number {
    return this.#timers.size
  }

  /** When the next timer is due, as milliseconds from now. */
  get nextTimer(): number | undefined {
    const next = this.#next(Infinity)
    return next === undefined ? undefined : next.due - this.#now
  }

  /** Moves time forward, firing each timer at its instant, and lets all promises run in between. */
  async advance(duration: number): Promise<void> {
    const end = this.#now + duration
    await settlePromises()
    for (let timer = this.#next(end); timer !== undefined; timer = this.#next(end)) {
      this.#timers.delete(timer)
      this.#now = Math.max(this.#now, timer.due)
      timer.callback()
      await settlePromises()
    }
    this.#now = end
  }

  #next(end: number): PendingTimer | undefined {
    let next: PendingTimer | undefined
    for (const timer of this.#timers) {
      if (timer.due > end) continue
      if (next === undefined || timer.due < next.due || (timer.due === next.due && timer.order < next.order)) next = timer
    }
    return next
  }
}

/** Lets everything run that waits for nothing but promises. */
export async function settlePromises(): Promise<void> {
  for (let turn = 0; turn < 3; turn += 1) await new Promise<void>((resolve) => setImmediate(resolve))
}
