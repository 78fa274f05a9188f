import type { Attributes } from '../../message/attributes.ts'
import { type Linked, LinkedList } from './memory-list.ts'
import type { MemorySchedule } from './memory-schedule.ts'

/** One message of a topic, as the broker keeps it. */
export interface StoredMessage extends Linked<StoredMessage> {
  readonly data: Uint8Array
  readonly attributes: Attributes
  /** How many groups are not done with it. */
  open: number
}

/**
 * What one group knows of one message.
 *
 * ready → in flight → done. A nack, an expired ackTimeout or a disposed holder leads from in flight back to ready,
 * a nack with a delay by way of delayed. Where order is kept, a message starts as blocked while an earlier one of
 * its key is not done: so of each key at most one message is ready, in flight or delayed.
 */
export interface GroupEntry extends Linked<GroupEntry> {
  readonly stored: StoredMessage
  deliveries: number
  /** The next one of its key, blocked until this one is done. */
  behind: GroupEntry | undefined
}

/** What takes messages from a group. */
export interface GroupReader {
  /** How many pulls wait for a message. */
  readonly waiting: number
  /** Called only for one of the `hungry`, which it is then no longer. Says whether it wants another one. */
  accept(entry: GroupEntry): boolean
  /** The broker closes: what it holds is lost. */
  close(): void
}

export interface MemoryGroupOptions {
  readonly orderPerKey: boolean
  readonly schedule: MemorySchedule
  /** Told of each message that the group is done with. */
  readonly release: (stored: StoredMessage) => void
}

/** The readers that share the work of one topic under one name. Each step costs the same, however long the queues are. */
export class MemoryGroup {
  readonly name: string
  readonly orderPerKey: boolean
  readonly readers: Set<GroupReader> = new Set()
  /** Those that wait for a message and may hold one more. After `serve`, if there are any, nothing is ready. */
  readonly hungry: Set<GroupReader> = new Set()
  readonly #schedule: MemorySchedule
  readonly #release: (stored: StoredMessage) => void
  readonly #fresh = new LinkedList<GroupEntry>()
  // What should have come before the fresh ones: delivered before, or held up by its key.
  readonly #early = new LinkedList<GroupEntry>()
  // The last message of each key that has any.
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

  /** Messages that this group is not done with. */
  get open(): number {
    return this.ready + this.#blocked + this.#delayed + this.#inFlight
  }

  /** Call `serve` after any number of these, as after `finish` and `retry`. */
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

  /** The next message, which is in flight from now on. */
  take(): GroupEntry | undefined {
    // Early ones go first, but every other turn is for the fresh: a message that is nacked for ever must not stop them.
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

  /** Hands out what is ready, to those who wait, in turn. */
  serve(): void {
    while (this.hungry.size > 0 && this.ready > 0) {
      const reader = first(this.hungry)
      const entry = this.take()
      if (reader === undefined || entry === undefined) return
      this.hungry.delete(reader)
      if (reader.accept(entry)) this.hungry.add(reader)
    }
  }

  /** Forgets everything, so that a source which somebody still has keeps no messages alive. */
  close(): void {
    for (const reader of this.readers) reader.close()
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
