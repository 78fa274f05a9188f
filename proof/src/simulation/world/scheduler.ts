import type { Timer } from '@ackord/core'

/** The owner of an event. A suspended owner receives its events later, an ended one never. */
export interface EventOwner {
  readonly state: 'running' | 'suspended' | 'ended'
  /** Stores an event until the owner resumes. */
  keep(run: () => void): void
}

interface ScheduledEvent {
  readonly at: number
  readonly order: number
  readonly owner: EventOwner | undefined
  run: (() => void) | undefined
}

/**
 * Virtual time: runs events one after the other by their instants, and events of the same instant in the order they were scheduled. After each event,
 * all code that waits only for promises runs, so that nothing depends on the speed of the machine.
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

  /** The number of events so far. */
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

  /** Runs until `over()` returns true, `limit` is reached, or no event is left. */
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

/** Node runs a tick after all pending promise callbacks. It needs no turn of the event loop, of which a history would take thousands. */
function promisesRun(): Promise<void> {
  // biome-ignore lint/style/noRestrictedGlobals: the scheduler must know when all promise callbacks have run, which no Runtime reports.
  return new Promise((resolve) => process.nextTick(resolve))
}
