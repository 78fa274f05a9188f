import type { Runtime } from '@ackord/core'
import { RandomStream } from '../plan/trace.ts'
import type { EventOwner, Scheduler } from './scheduler.ts'

export interface SimulatedProcessOptions {
  readonly scheduler: Scheduler
  readonly seed: number
  /** Identifies the process in the system; after a crash, its replacement has the same slot. */
  readonly slot: string
  /** The number of earlier processes in this slot. */
  readonly incarnation: number
  /** The error of its clock in milliseconds. */
  readonly skew: number
}

/**
 * One run of a program, from its start to its end.
 *
 *     running ─ suspend() ─▶ suspended: its events wait ─ resume() ─▶ running
 *             ─ end() ─────▶ ended: it receives no more events, so pending awaits never continue
 */
export class SimulatedProcess implements EventOwner {
  readonly slot: string
  readonly name: string
  readonly runtime: Runtime
  readonly random: RandomStream
  readonly #scheduler: Scheduler
  readonly #kept: (() => void)[] = []
  #state: 'running' | 'suspended' | 'ended' = 'running'
  #timers = 0

  constructor({ scheduler, seed, slot, incarnation, skew }: SimulatedProcessOptions) {
    this.#scheduler = scheduler
    this.slot = slot
    this.name = `${slot}#${incarnation}`
    this.random = new RandomStream(seed, 'latency', this.name)
    const random = new RandomStream(seed, 'runtime', this.name)
    let ids = 0
    this.runtime = {
      now: () => scheduler.now() + skew,
      monotonic: scheduler.now,
      random: random.next,
      uuid: () => {
        ids += 1
        return `${this.name}:${ids}`
      },
      setTimeout: (callback, delay) => this.#setTimeout(callback, delay),
    }
  }

  get state(): 'running' | 'suspended' | 'ended' {
    return this.#state
  }

  /** The number of its pending timers. */
  get timers(): number {
    return this.#timers
  }

  keep(run: () => void): void {
    this.#kept.push(run)
  }

  suspend(): void {
    if (this.#state === 'running') this.#state = 'suspended'
  }

  /** Delivers the events that waited, one by one. */
  resume(): void {
    if (this.#state !== 'suspended') return
    this.#state = 'running'
    for (const run of this.#kept.splice(0)) this.#scheduler.after(0, run, this)
  }

  end(): void {
    this.#state = 'ended'
    this.#kept.length = 0
  }

  #setTimeout(callback: () => void, delay: number) {
    let waiting = true
    this.#timers += 1
    const done = () => {
      if (waiting) this.#timers -= 1
      waiting = false
    }
    const fire = () => {
      if (!waiting) return
      done()
      callback()
    }
    const timer = this.#scheduler.after(delay, fire, this)
    return {
      cancel: () => {
        done()
        timer.cancel()
      },
    }
  }
}
