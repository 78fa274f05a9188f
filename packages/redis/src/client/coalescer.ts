import { outside } from '@ackord/core'

export interface CoalescerOptions<Item> {
  /** The maximum number of items in one call. */
  readonly size: number
  /** The approximate size of an item in bytes. Default: sizes are ignored. */
  readonly weightOf?: ((item: Item) => number) | undefined
  /** Only items of the same group share a call. In a cluster, items of different slots must be in different groups. */
  readonly groupOf: (item: Item) => number
  /** Resolves when the call is answered. Never rejects. */
  readonly run: (items: readonly Item[]) => Promise<void>
}

/** The items of one group that wait for a call. */
interface GroupQueue<Item> {
  waiting: Item[]
  /** The number of calls that have not been answered. */
  running: number
  /** Whether the next call is scheduled. */
  scheduled: boolean
}

/** Two calls at a time keep the connection busy, and items that arrive meanwhile share the next call. */
const maxConcurrentCalls = 2

/** In bytes: all other clients wait while the server reads and runs a call. */
const maxCallSize = 1_048_576

/** Gathers items that arrive in one tick, or while earlier calls run, into one call. Calls grow with the load; without load no item waits. */
export class Coalescer<Item> {
  readonly #options: CoalescerOptions<Item>
  readonly #queues = new Map<number, GroupQueue<Item>>()

  constructor(options: CoalescerOptions<Item>) {
    this.#options = options
  }

  add(item: Item): void {
    const { size, groupOf, run } = this.#options
    if (size === 1) {
      void run([item])
      return
    }
    const group = groupOf(item)
    let queue = this.#queues.get(group)
    if (queue === undefined) {
      queue = { waiting: [], running: 0, scheduled: false }
      this.#queues.set(group, queue)
    }
    queue.waiting.push(item)
    this.#schedule(group, queue)
  }

  #schedule(group: number, queue: GroupQueue<Item>): void {
    if (queue.scheduled || queue.running >= maxConcurrentCalls) return
    queue.scheduled = true
    // After the callbacks of the same answer, and outside any message's context.
    outside(() => queueMicrotask(() => queueMicrotask(() => this.#run(group, queue))))
  }

  #run(group: number, queue: GroupQueue<Item>): void {
    const { size, run } = this.#options
    queue.scheduled = false
    const { waiting } = queue
    const count = this.#fitting(waiting, size)
    const items = count === waiting.length ? waiting : waiting.slice(0, count)
    queue.waiting = count === waiting.length ? [] : waiting.slice(count)
    queue.running += 1
    void run(items).then(() => {
      queue.running -= 1
      if (queue.waiting.length > 0) this.#schedule(group, queue)
      else if (queue.running === 0 && !queue.scheduled) this.#queues.delete(group)
    })
    if (queue.waiting.length > 0) this.#schedule(group, queue)
  }

  /** The number of waiting items that fit into one call: at least one. */
  #fitting(waiting: readonly Item[], size: number): number {
    const { weightOf } = this.#options
    const most = Math.min(waiting.length, size)
    if (weightOf === undefined) return most
    let weight = 0
    for (let index = 0; index < most; index += 1) {
      weight += weightOf(waiting[index] as Item)
      if (weight > maxCallSize) return Math.max(1, index)
    }
    return most
  }
}
