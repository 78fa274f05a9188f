import { outside } from '../../message/context.ts'
import type { Runtime, Timer } from '../../ports/runtime.ts'

/** A task that the schedule runs later. */
export interface ScheduledTask {
  readonly due: number
  readonly order: number
  /** `reached` is the instant that the schedule has reached, at least `due`. */
  readonly run: (reached: number) => void
  /** The position in the heap; −1 after the task has run or was cancelled. */
  index: number
}

// The maximum delay of Node's timers. A later task takes several timers.
const longestDelay = 2 ** 31 - 1

/** All delayed tasks of a memory broker: one heap and one timer, whatever the number of waiting messages. */
export class MemorySchedule {
  readonly #runtime: Runtime
  readonly #heap: ScheduledTask[] = []
  #order = 0
  #timer: Timer | undefined
  #timerDue = Infinity

  constructor(runtime: Runtime) {
    this.#runtime = runtime
  }

  get size(): number {
    return this.#heap.length
  }

  /** Milliseconds of the monotonic clock. */
  now(): number {
    return this.#runtime.monotonic()
  }

  /** Tasks of the same instant run in the order they were added. */
  at(due: number, run: ScheduledTask['run']): ScheduledTask {
    this.#order += 1
    const task: ScheduledTask = { due, order: this.#order, run, index: this.#heap.length }
    this.#heap.push(task)
    this.#rise(task)
    this.#arm()
    return task
  }

  /** Idempotent. */
  cancel(task: ScheduledTask): void {
    if (task.index === -1) return
    this.#remove(task)
    if (this.#heap.length === 0) this.#disarm()
  }

  clear(): void {
    for (const task of this.#heap) task.index = -1
    this.#heap.length = 0
    this.#disarm()
  }

  #arm(): void {
    const next = this.#heap[0]
    if (next === undefined || next.due >= this.#timerDue) return
    this.#disarm()
    const now = this.now()
    const delay = Math.min(Math.max(0, next.due - now), longestDelay)
    this.#timerDue = now + delay
    // The timer keeps the process alive, as the connection to a real broker would: a message is still due.
    // Outside the context of the handler whose nack may have led here, because all messages share the timer.
    this.#timer = outside(() => this.#runtime.setTimeout(() => this.#fire(), delay))
  }

  #disarm(): void {
    this.#timer?.cancel()
    this.#timer = undefined
    this.#timerDue = Infinity
  }

  #fire(): void {
    // Timers may fire a fraction of a millisecond before the monotonic clock reaches their instant.
    const reached = Math.max(this.now(), this.#timerDue)
    // Tasks that are added meanwhile are scheduled after all due tasks have run.
    this.#timerDue = -Infinity
    for (let task = this.#heap[0]; task !== undefined && task.due <= reached; task = this.#heap[0]) {
      this.#remove(task)
      task.run(reached)
    }
    this.#disarm()
    this.#arm()
  }

  #remove(task: ScheduledTask): void {
    const { index } = task
    const last = this.#heap.pop()
    task.index = -1
    if (last === undefined || last === task) return
    this.#place(last, index)
    this.#rise(last)
    this.#sink(last)
  }

  #rise(task: ScheduledTask): void {
    while (task.index > 0) {
      const { index } = task
      const parent = this.#heap[(index - 1) >> 1]
      if (parent === undefined || isBefore(parent, task)) return
      this.#place(task, parent.index)
      this.#place(parent, index)
    }
  }

  #sink(task: ScheduledTask): void {
    for (;;) {
      const { index } = task
      const left = this.#heap[2 * index + 1]
      if (left === undefined) return
      const right = this.#heap[2 * index + 2]
      const child = right !== undefined && isBefore(right, left) ? right : left
      if (isBefore(task, child)) return
      this.#place(task, child.index)
      this.#place(child, index)
    }
  }

  #place(task: ScheduledTask, index: number): void {
    this.#heap[index] = task
    task.index = index
  }
}

function isBefore(task: ScheduledTask, other: ScheduledTask): boolean {
  return task.due < other.due || (task.due === other.due && task.order < other.order)
}
