import type { Timer } from '@ackord/core'

/** Who an event happens to. Those that are suspended get theirs later, those that have ended never. */
export interface EventOwner {
  readonly state: 'running' | 'suspended' | 'ended'
  /** Takes an event that it cannot have now. */
  keep(run: () => void): void
}

interface ScheduledEvent {
  readonly at: number
  readonly order: number
  readonly owner: EventOwner | undefined
  run: (() => void) | undefined
}

/**
 * Virtual time: one event after the other, by their instants, and those of one instant in the order they were planned. After each, everything runs that
 * waits for promises alone, so that nothing depends on how fast the machine is.
 */
export class Scheduler {
  readonly #heap: ScheduledEvent[] = []
  #now: number
  #order = 0
  #steps = 0

  constructor(start: number) {
    this.#now = start
  }

  readonly now = (): number => this.#now

  /** How many events there have been. */
  get steps(): number {
    return this.#steps
  }

  after(delay: number, run: () => void, owner?: EventOwner): Timer {
    this.#order += 1
    const event: ScheduledEvent = { at: this.#now + Math.max(0, delay), order: this.#order, owner, run }
    this.#push(event)
    return {
      cancel: () => {
        event.run = undefined
      },
    }
  }

  /** Goes on until it is `over()`, `limit` is reached, or nothing is left to happen. */
  async run(limit: number, over: () => boolean): Promise<void> {
    await promisesRun()
    while (!over()) {
      const event = this.#heap[0]
      if (event === undefined || event.at > limit) break
      this.#pop()
      const { run, owner } = event
      if (run === undefined || owner?.state === 'ended') continue
      this.#now = event.at
      if (owner?.state === 'suspended') {
        owner.keep(run)
        continue
      }
      this.#steps += 1
      run()
      await promisesRun()
    }
  }

  #push(event: ScheduledEvent): void {
    const heap = this.#heap
    let index = heap.length
    while (index > 0) {
      const above = (index - 1) >> 1
      const parent = heap[above]
      if (parent === undefined || isBefore(parent, event)) break
      heap[index] = parent
      index = above
    }
    heap[index] = event
  }

  #pop(): void {
    const heap = this.#heap
    const last = heap.pop()
    if (last === undefined || heap.length === 0) return
    let index = 0
    for (;;) {
      const left = 2 * index + 1
      const right = left + 1
      const leftEvent = heap[left]
      const rightEvent = heap[right]
      if (leftEvent === undefined) break
      const isRight = rightEvent !== undefined && isBefore(rightEvent, leftEvent)
      const least = isRight ? rightEvent : leftEvent
      if (isBefore(last, least)) break
      heap[index] = least
      index = isRight ? right : left
    }
    heap[index] = last
  }
}

function isBefore(one: ScheduledEvent, other: ScheduledEvent): boolean {
  return one.at < other.at || (one.at === other.at && one.order < other.order)
}

/** Node runs a tick when no promise has anything left to do; that takes no turn of the event loop, of which a history would need thousands. */
function promisesRun(): Promise<void> {
  // biome-ignore lint/style/noRestrictedGlobals: whoever owns time must know when the promises have run; no Runtime can tell.
  return new Promise((resolve) => process.nextTick(resolve))
}
