import { LinkedList } from '../../async/collections.ts'
import { Message, type RawMessage } from '../../message/message.ts'
import { MemoryGroup, type StoredMessage } from './memory-group.ts'
import type { MemorySchedule } from './memory-schedule.ts'

interface IdleWaiter {
  readonly group: string
  readonly resolve: () => void
  readonly reject: (reason: unknown) => void
}

/** The groups, and the messages that any of them still needs. Before there is a group, all messages are kept. */
export class MemoryTopic {
  readonly groups: Map<string, MemoryGroup> = new Map()
  readonly #schedule: MemorySchedule
  readonly #historySize: number
  readonly #history: { readonly data: Uint8Array; readonly attributes: StoredMessage['attributes'] }[] = []
  readonly #idleWaiters = new Set<IdleWaiter>()
  readonly #kept = new LinkedList<StoredMessage>()
  #published = 0

  constructor(schedule: MemorySchedule, historySize: number) {
    this.#schedule = schedule
    this.#historySize = historySize
  }

  get kept(): number {
    return this.#kept.size
  }

  get published(): number {
    return this.#published
  }

  /** Stores data and attributes, as a broker does, without the message's context values and acking. Call `serve` afterwards. */
  append(message: RawMessage): void {
    const { data } = message
    const attributes = { ...message.attributes }
    const open = this.groups.size
    const stored: StoredMessage = { data, attributes, open, previous: undefined, next: undefined }
    this.#kept.push(stored)
    for (const group of this.groups.values()) group.add(stored)

    if (this.#historySize > 0) this.#history[this.#published % this.#historySize] = { data, attributes }
    this.#published += 1
  }

  serve(): void {
    for (const group of this.groups.values()) group.serve()
  }

  createGroup(name: string, options: { readonly orderPerKey: boolean; readonly from: 'oldest' | 'newest' }): MemoryGroup {
    const { orderPerKey, from } = options
    const release = (stored: StoredMessage) => {
      stored.open -= 1
      if (stored.open === 0) this.#kept.remove(stored)
      if (group.open === 0) this.#becameIdle(name)
    }
    const group = new MemoryGroup(name, { orderPerKey, schedule: this.#schedule, release })
    if (from === 'oldest') {
      for (let stored = this.#kept.first; stored !== undefined; stored = stored.next) {
        stored.open += 1
        group.add(stored)
      }
    } else if (this.groups.size === 0) {
      this.#kept.clear()
    }
    this.groups.set(name, group)
    if (group.open === 0) this.#becameIdle(name)
    return group
  }

  /** The most recently published messages, oldest first, without acking. */
  history(): RawMessage[] {
    const start = this.#history.length < this.#historySize ? 0 : this.#published % this.#historySize
    return [...this.#history.slice(start), ...this.#history.slice(0, start)].map(
      ({ data, attributes }) => new Message(data, { ...attributes }),
    )
  }

  /** Resolves when the group, which need not exist yet, has no open messages. */
  idle(group: string, signal: AbortSignal | undefined): Promise<void> {
    if ((this.groups.get(group)?.open ?? this.kept) === 0) return Promise.resolve()
    return new Promise((resolve, reject) => {
      const leave = () => {
        this.#idleWaiters.delete(waiter)
        signal?.removeEventListener('abort', onAbort)
      }
      const waiter: IdleWaiter = {
        group,
        resolve() {
          leave()
          resolve()
        },
        reject(reason) {
          leave()
          reject(reason)
        },
      }
      const onAbort = () => waiter.reject(signal?.reason)
      signal?.addEventListener('abort', onAbort, { once: true })
      this.#idleWaiters.add(waiter)
    })
  }

  close(reason: unknown): void {
    for (const group of this.groups.values()) group.close()
    for (const waiter of this.#idleWaiters) waiter.reject(reason)
    this.#kept.clear()
  }

  #becameIdle(group: string): void {
    if (this.#idleWaiters.size === 0) return
    for (const waiter of this.#idleWaiters) if (waiter.group === group) waiter.resolve()
  }
}

/** The current numbers of a topic or of one of its groups. All except `sources` and the totals are 0 when every message is done and no pull waits. */
export interface MemoryStats {
  /** Messages that the topic keeps for any group. */
  readonly kept: number
  /** Messages that wait for a source. */
  readonly ready: number
  /** Messages that wait for an earlier message of their key. */
  readonly blocked: number
  /** Messages that were nacked with a delay that is not over. */
  readonly delayed: number
  /** Messages that were yielded and are not settled. */
  readonly inFlight: number
  /** With order per key: keys of messages that are not done. */
  readonly keys: number
  /** Pulls that wait for a message. */
  readonly waiting: number
  /** Sources that have not been disposed. */
  readonly sources: number
  /** The total number of published messages. */
  readonly published: number
  /** The total number of acked messages. */
  readonly acked: number
  /** The total number of dead-lettered or discarded messages. */
  readonly rejected: number
}

/** The sum of all groups, or the numbers of the group with this name. */
export function memoryStats(topic: MemoryTopic | undefined, name: string | undefined): MemoryStats {
  const groups = [...(topic?.groups.values() ?? [])].filter((group) => name === undefined || group.name === name)
  const sum = (count: (group: (typeof groups)[number]) => number) => groups.reduce((total, group) => total + count(group), 0)
  return {
    kept: topic?.kept ?? 0,
    ready: sum((group) => group.ready),
    blocked: sum((group) => group.blocked),
    delayed: sum((group) => group.delayed),
    inFlight: sum((group) => group.inFlight),
    keys: sum((group) => group.keys),
    waiting: sum((group) => group.waiting),
    sources: sum((group) => group.readers.size),
    published: topic?.published ?? 0,
    acked: sum((group) => group.acked),
    rejected: sum((group) => group.rejected),
  }
}
