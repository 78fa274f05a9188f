import { outside } from '@ackord/core'

export interface CoalescerOptions<Item> {
  /** The maximum number of items in one call. */
  readonly size: number
  /** The approximate size of an item in bytes. Default: sizes are ignored. */
  readonly weightOf?: ((item: Item) => number) | undefined
  /** Only items with the same number share a call. */
  readonly groupOf: (item: Item) => number
  /** Resolves when the call is answered. Never rejects. */
  readonly run: (items: readonly Item[]) => Promise<void>
}

interface Lane<Item> {
  waiting: Item[]
  running: number
  planned: boolean
}

/** Two calls at a time keep the connection busy, and items that arrive meanwhile share the next call. */
const callsAtOnce = 2

/** In bytes: all other clients wait while the server reads and runs a call. */
const heaviestCall = 1_048_576

/** Gathers items that arrive in one tick, or while earlier calls run, into one call. Calls grow with the load; without load no item waits. */
export class Coalescer<Item> {
  readonly #options: CoalescerOptions<Item>
  readonly #lanes = new Map<number, Lane<Item>>()

  constructor(options: CoalescerOptions<Item>) {
    this.#options = options
  }

  add(item: Item): void {
    const { size, groupOf, run } = this.#options
    if (size === 1) {
      void run([item])
      return
    }
    const number = groupOf(item)
    let lane = this.#lanes.get(number)
    if (lane === undefined) {
      lane = { waiting: [], running: 0, planned: false }
      this.#lanes.set(number, lane)
    }
    lane.waiting.push(item)
    this.#plan(number, lane)
  }

  #plan(number: number, lane: Lane<Item>): void {
    if (lane.planned || lane.running >= callsAtOnce) return
    lane.planned = true
    // After the callbacks of the same answer. It runs outside of any message's context.
    outside(() => queueMicrotask(() => queueMicrotask(() => this.#run(number, lane))))
  }

  #run(number: number, lane: Lane<Item>): void {
    const { size, run } = this.#options
    lane.planned = false
    const { waiting } = lane
    const count = this.#fitting(waiting, size)
    const items = count === waiting.length ? waiting : waiting.slice(0, count)
    lane.waiting = count === waiting.length ? [] : waiting.slice(count)
    lane.running += 1
    void run(items).then(() => {
      lane.running -= 1
      if (lane.waiting.length > 0) this.#plan(number, lane)
      else if (lane.running === 0 && !lane.planned) this.#lanes.delete(number)
    })
    if (lane.waiting.length > 0) this.#plan(number, lane)
  }

  /** How many of the first items go into one call: at least one. */
  #fitting(waiting: readonly Item[], size: number): number {
    const { weightOf } = this.#options
    const most = Math.min(waiting.length, size)
    if (weightOf === undefined) return most
    let weight = 0
    for (let index = 0; index < most; index += 1) {
      weight += weightOf(waiting[index] as Item)
      if (weight > heaviestCall) return Math.max(1, index)
    }
    return most
  }
}
