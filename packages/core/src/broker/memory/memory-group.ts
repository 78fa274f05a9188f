import { type Linked, LinkedList } from '../../async/collections.ts'
import type { Attributes } from '../../message/attributes.ts'
import type { MemorySchedule } from './memory-schedule.ts'

/** A message as the topic keeps it. */
export interface StoredMessage extends Linked<StoredMessage> {
  readonly data: Uint8Array
  readonly attributes: Attributes
  /** The number of groups that have not acked or rejected it. */
  open: number
}

/**
 * The state of one message in one group.
 *
 * ready → in flight → done. A nack, an expired ackTimeout or a disposed source leads from in flight back to ready;
 * a nack with a delay leads there through delayed. With order per key, a message starts as blocked while an earlier
 * message of its key is not done, so at most one message of each key is ready, in flight or delayed.
 */
export interface GroupEntry extends Linked<GroupEntry> {
  readonly stored: StoredMessage
  deliveries: number
  /** The next message of the same key, blocked until this one is done. */
  behind: GroupEntry | undefined
}

/** A consumer of a group's messages. */
export interface GroupReader {
  /** The number of pulls that wait for a message. */
  readonly waiting: number
  /** Called only on a `hungry` reader, after removing it from the set. Returns whether the reader wants another message. */
  accept(entry: GroupEntry): boolean
  /** Called when the broker closes. The reader's unsettled messages are lost. */
  closeWithBroker(): void
}

export interface MemoryGroupOptions {
  readonly orderPerKey: boolean
  readonly schedule: MemorySchedule
  /** Called with each message that the group has acked or rejected. */
  readonly release: (stored: StoredMessage) => void
}

/** The readers that share the messages of one topic under one name. Every operation takes constant time, whatever the length of the queues. */
export class MemoryGroup {
  readonly name: string
  readonly orderPerKey: boolean
  readonly readers: Set<GroupReader> = new Set()
  /** The readers that wait for a message and are below their prefetch. If any remain after `serve`, no message is ready. */
  readonly hungry: Set<GroupReader> = new Set()
  readonly #schedule: MemorySchedule
  readonly #release: (stored: StoredMessage) => void
  readonly #fresh = new LinkedList<GroupEntry>()
  // Messages that are due before the fresh ones, because they were delivered before or were blocked by their key.
  readonly #early = new LinkedList<GroupEntry>()
  // The last message of each key.
  readonly #keys = new Map<string, GroupEntry>()
  #tookEarly = false
  #blocked = 0
  #delayed = 0
  #inFlight = 0
  #acked = 0
  #rejected = 0

  constructor(name: string, options: MemoryGroupOptions) {
    this.name = name
    this.orderPerKey = options.orderPerKey
    this.#schedule = options.schedule
    this.#release = options.release
  }

  get ready(): number {
    return this.#early.size + this.#fresh.size
  }

  get blocked(): number {
    return this.#blocked
  }

  get delayed(): number {
    return this.#delayed
  }

  get inFlight(): number {
    return this.#inFlight
  }

  get acked(): number {
    return this.#acked
  }

  get rejected(): number {
    return this.#rejected
  }

  get keys(): number {
    return this.#keys.size
  }

  get waiting(): number {
    let waiting = 0
    for (const reader of this.readers) waiting += reader.waiting
    return waiting
  }

  /** The number of messages that the group has not acked or rejected. */
  get open(): number {
    return this.ready + this.#blocked + this.#delayed + this.#inFlight
  }

  /** Call `serve` after one or more calls, as after `finish` and `retry`. */
  add(stored: StoredMessage): void {
    const entry: GroupEntry = { stored, deliveries: 0, behind: undefined, previous: undefined, next: undefined }
    const key = this.#keyOf(entry)
    const ahead = key === undefined ? undefined : this.#keys.get(key)
    if (key !== undefined) this.#keys.set(key, entry)
    if (ahead === undefined) {
      this.#fresh.push(entry)
      return
    }
    ahead.behind = entry
    this.#blocked += 1
  }

  /** Returns the next message, which is in flight from now on. */
  take(): GroupEntry | undefined {
    // Early messages go first, but alternate with fresh ones: a message that is nacked forever must not block them.
    const early = this.#early.size > 0 && !(this.#tookEarly && this.#fresh.size > 0)
    const entry = early ? this.#early.shift() : this.#fresh.shift()
    if (entry === undefined) return undefined
    this.#tookEarly = early
    this.#inFlight += 1
    entry.deliveries += 1
    return entry
  }

  finish(entry: GroupEntry, verdict: 'acked' | 'rejected'): void {
    this.#inFlight -= 1
    if (verdict === 'acked') this.#acked += 1
    else this.#rejected += 1
    this.#passKey(entry)
    this.#release(entry.stored)
  }

  retry(entry: GroupEntry, delay: number): void {
    this.#inFlight -= 1
    if (!(delay > 0)) {
      this.#early.push(entry)
      return
    }
    this.#delayed += 1
    this.#schedule.at(this.#schedule.now() + delay, () => {
      this.#delayed -= 1
      this.#early.push(entry)
      this.serve()
    })
  }

  /** Delivers ready messages to the waiting readers in turn. */
  serve(): void {
    while (this.hungry.size > 0 && this.ready > 0) {
      const reader = first(this.hungry)
      const entry = this.take()
      if (reader === undefined || entry === undefined) return
      this.hungry.delete(reader)
      if (reader.accept(entry)) this.hungry.add(reader)
    }
  }

  /** Drops all messages, so that a source that is still referenced keeps none of them in memory. */
  close(): void {
    for (const reader of this.readers) reader.closeWithBroker()
    this.#fresh.clear()
    this.#early.clear()
    this.#keys.clear()
  }

  #passKey(entry: GroupEntry): void {
    const key = this.#keyOf(entry)
    if (key === undefined) return
    const { behind } = entry
    if (behind === undefined) {
      this.#keys.delete(key)
      return
    }
    entry.behind = undefined
    this.#blocked -= 1
    this.#early.push(behind)
  }

  #keyOf(entry: GroupEntry): string | undefined {
    if (!this.orderPerKey) return undefined
    const key: unknown = entry.stored.attributes.partitionkey
    return typeof key === 'string' ? key : undefined
  }
}

function first<T>(values: Set<T>): T | undefined {
  for (const value of values) return value
  return undefined
}
