import type { Runtime, Timer } from '@ackord/core'

interface PendingTimer {
  readonly due: number
  readonly order: number
  readonly callback: () => void
}

export interface VirtualRuntimeOptions {
  /** The initial time in milliseconds since the epoch. Default: the start of 2026, UTC. */
  readonly start?: number | undefined
  /** The seed of `random()`. Default: 1. */
  readonly seed?: number | undefined
}

/** A clock that stands still until a test advances it. Random numbers come from a seed, and ids are counted. Its methods are bound and may be passed separately. */
export class VirtualRuntime implements Runtime {
  readonly #timers = new Set<PendingTimer>()
  readonly #start: number
  #shift = 0
  #elapsed = 0
  #seed: number
  #order = 0
  #ids = 0

  constructor(options: VirtualRuntimeOptions = {}) {
    const { start = Date.UTC(2026, 0, 1), seed = 1 } = options
    this.#start = start
    this.#seed = seed
  }

  readonly now = (): number => this.#start + this.#shift + this.#elapsed

  readonly monotonic = (): number => this.#elapsed

  readonly random = (): number => {
    // mulberry32: small, and good enough to spread delays.
    this.#seed = (this.#seed + 0x6d2b79f5) | 0
    let t = Math.imul(this.#seed ^ (this.#seed >>> 15), 1 | this.#seed)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296
  }

  readonly uuid = (): string => {
    this.#ids += 1
    return `00000000-0000-4000-8000-${String(this.#ids).padStart(12, '0')}`
  }

  readonly setTimeout = (callback: () => void, delay: number): Timer => {
    this.#order += 1
    const timer = { due: this.#elapsed + delay, order: this.#order, callback }
    this.#timers.add(timer)
    return { cancel: () => void this.#timers.delete(timer) }
  }

  /** The number of pending timers. A test that ends with pending timers has leaked them. */
  get timers(): number {
    return this.#timers.size
  }

  /** Milliseconds until the next timer is due; `undefined` without one. */
  get nextTimer(): number | undefined {
    const next = this.#next(Infinity)
    return next === undefined ? undefined : next.due - this.#elapsed
  }

  /** Advances the time by `duration` milliseconds, fires each timer when it is due, and lets all promises run in between. */
  async advance(duration: number): Promise<void> {
    const end = this.#elapsed + duration
    await settlePromises()
    for (let timer = this.#next(end); timer !== undefined; timer = this.#next(end)) {
      this.#timers.delete(timer)
      this.#elapsed = Math.max(this.#elapsed, timer.due)
      timer.callback()
      await settlePromises()
    }
    this.#elapsed = end
  }

  /** Sets the wall clock forward, or back with a negative number of milliseconds. Timers and `monotonic()` are not affected. */
  shiftClock(by: number): void {
    this.#shift += by
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

/** Waits until all code that waits for promises only has run. */
export async function settlePromises(): Promise<void> {
  // Some promises of the platform (streams, async iteration over them) need a turn of the event loop each.
  for (let turn = 0; turn < 3; turn += 1) await eventLoopTurn()
}

/** One turn of the event loop, so that I/O can proceed. */
export function eventLoopTurn(): Promise<void> {
  // biome-ignore lint/style/noRestrictedGlobals: this is the runtime that others take time from; it must let the real event loop go on.
  return new Promise((resolve) => void setImmediate(resolve))
}
