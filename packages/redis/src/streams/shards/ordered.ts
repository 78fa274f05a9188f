import { idle, outside, type Runtime, type Timer } from '@ackord/core'
import { KeyQueues } from '@ackord/core/broker'
import { WakeSignal } from '@ackord/core/internal'
import type { RedisArgument } from '../../client/port.ts'
import { says } from '../../client/reply.ts'
import { compareIds, nextId, type StreamEntry } from '../entries/stream-entry.ts'
import { FreshEntries } from '../group/blocking-reader.ts'
import type { DeliveredEntry, StreamGroup } from '../group/stream-group.ts'
import { HeldEntries, lossError } from './held-entries.ts'
import type { HeldEntry } from './shard.ts'
import { deadAfter, type Reading, reportDeleted, type Shard, ShardHealth, type ShardSettings } from './shard.ts'
import type { ShardLease } from './shard-ownership.ts'

export interface OrderedShardSettings extends ShardSettings {
  readonly lease: ShardLease
  readonly keyOf: (entry: StreamEntry) => string | undefined
}

/** An entry that waits behind another one of its key. Its fields may have been dropped to save memory, and are fetched again when its turn comes. */
interface WaitingEntry {
  readonly id: string
  readonly deliveries: number
  readonly fields: readonly Buffer[] | undefined
}

const pageSize = 500
// More are not read: each takes some hundred bytes in memory.
const mostWaiting = 10_000

/**
 * The one consumer that reads a stream, by a lease. One entry of each key is delivered at a time, the next one when it is acked or
 * dead-lettered; a nacked entry keeps those behind it waiting.
 *
 * The order holds also if a lease expires unnoticed: the next owner first takes over all pending entries. After each read an owner proves its lease and, in the same
 * step, takes the pending entries before those that it has read, which a late read of the previous owner may have received. And a verdict is
 * accepted only from the consumer for which the entry is pending, so that the previous owner does not get to the second entry of a key.
 */
export class OrderedShard implements Shard, Reading {
  readonly finished: Promise<void>
  readonly #settings: OrderedShardSettings
  readonly #group: StreamGroup
  readonly #runtime: Runtime
  readonly #health: ShardHealth
  readonly #held: HeldEntries
  readonly #keys = new KeyQueues<WaitingEntry>()
  // How many of the waiting entries have their fields.
  #withFields = 0
  readonly #keyOf = new Map<string, string>()
  // Nacked entries that are to be delivered again.
  readonly #delayed = new Map<string, Timer>()
  readonly #ending = new AbortController()
  readonly #room: WakeSignal
  #seen = '0-0'
  #cleanAt = 0
  #warned = false
  #isLost = false
  #reading: Promise<unknown> = Promise.resolve()
  #leaving: Promise<void> | undefined
  #hasLeft = false
  #hasEnded = false
  #finish: () => void = () => {}

  constructor(settings: OrderedShardSettings) {
    const { redis, group, backoff, logger } = settings
    const { runtime } = redis
    this.#settings = settings
    this.#group = group
    this.#runtime = runtime
    this.#health = new ShardHealth(group.stream, { backoff, runtime, logger })
    this.#held = new HeldEntries(group, runtime, (entry) => this.#freed(entry))
    this.#room = new WakeSignal(runtime)
    this.finished = new Promise((resolve) => {
      this.#finish = resolve
    })
  }

  async run(): Promise<void> {
    const reading = this.#read()
    this.#reading = reading.catch(() => {})
    await reading
  }

  holds(entry: HeldEntry): boolean {
    return this.#held.holds(entry)
  }

  async ack(entry: HeldEntry): Promise<void> {
    await this.#held.settle(entry, { kind: 'ack', id: entry.id, deliveries: entry.deliveries })
    this.#advance(entry.id)
  }

  async reject(entry: HeldEntry, letter: readonly RedisArgument[]): Promise<void> {
    await this.#held.settle(entry, { kind: 'dead', id: entry.id, deliveries: entry.deliveries, letter })
    this.#advance(entry.id)
  }

  /** It stays pending for this consumer: no other may have it before those behind it. */
  async nack(entry: HeldEntry, delay: number, counts: boolean): Promise<void> {
    const { id } = entry
    if (!this.#held.holds(entry)) throw lossError(entry)
    const deliveries = counts || !(await this.#uncount([id])) ? entry.deliveries : entry.deliveries - 1
    if (!this.#ending.signal.aborted) this.#delay(id, deliveries, delay)
    this.#held.drop(entry)
    this.#freed(entry)
  }

  /** Another instance has the lease, and delivers the entries. */
  lose(): void {
    // Releasing the shard would delete the lease, too.
    if (this.#isLost || this.#hasEnded) return
    this.#isLost = true
    this.#settings.logger.warn({ stream: this.#group.stream }, 'The lease of a shard was lost; another consumer reads it.')
    this.#held.loseAll('taken')
    void this.leave()
  }

  leave(): Promise<void> {
    this.#leaving ??= this.#leave()
    return this.#leaving
  }

  async dispose(): Promise<void> {
    await this.leave()
    await this.#held.answered()
    this.#held.loseAll('disposed')
    await this.#end()
  }

  async #read(): Promise<void> {
    const { signal } = this.#ending
    const fresh = new FreshEntries(this.#settings, signal)
    let recovering = true
    while (!signal.aborted) {
      const free = this.#free()
      if (free <= 0) {
        await this.#room.wait(Infinity, signal)
        continue
      }
      try {
        await fresh.createGroup()
        if (recovering) recovering = await this.#recover(free)
        else await this.#proceed(await fresh.read(free))
        // A lost answer, which some clients do not report, leaves entries pending here without this consumer's knowledge.
        if (await this.#cleanUp()) recovering = true
        this.#health.well()
      } catch (error) {
        if (signal.aborted) return
        recovering = true
        if (fresh.isGone(error)) {
          this.#forget()
          await this.#health.lostGroup(signal)
        } else await this.#health.failed(error, signal)
      }
    }
  }

  /** Takes a page of pending entries behind all that were seen, from every consumer. Returns whether there may be more. */
  async #recover(limit: number): Promise<boolean> {
    const taken = await this.#group.takeRange(this.#settings.lease, { from: nextId(this.#seen), to: '+', limit, known: [] })
    if (taken === 'LOST') {
      this.lose()
      return false
    }
    this.#accept(taken.entries)
    if (taken.more !== undefined) {
      this.#seen = taken.more
      return true
    }
    return false
  }

  /** Whether a search was due. */
  async #cleanUp(): Promise<boolean> {
    const now = this.#runtime.monotonic()
    if (now < this.#cleanAt) return false
    this.#cleanAt = now + this.#settings.claimInterval
    await this.#group.removeDeadConsumers(deadAfter)
    return true
  }

  /** The group is lost. Its entries are read again; handlers may finish those that they have. */
  #forget(): void {
    for (const timer of this.#delayed.values()) timer.cancel()
    this.#delayed.clear()
    this.#keys.clear()
    this.#withFields = 0
    this.#keyOf.clear()
    for (const entry of this.#held.all) if (!entry.yielded) this.#held.drop(entry)
    this.#held.orphanAll()
    this.#seen = '0-0'
  }

  async #proceed(entries: readonly DeliveredEntry[]): Promise<void> {
    const last = entries.at(-1)
    if (last === undefined) return
    const known = entries.map(({ id }) => id)
    const missed: DeliveredEntry[] = []
    for (let from: string | undefined = nextId(this.#seen); from !== undefined; ) {
      const taken = await this.#group.takeRange(this.#settings.lease, {
        from,
        to: last.id,
        limit: pageSize,
        known: [...known, ...this.#ownIds()],
      })
      if (taken === 'LOST') {
        this.lose()
        return
      }
      missed.push(...taken.entries)
      from = taken.more === undefined ? undefined : nextId(taken.more)
    }
    this.#accept([...missed, ...entries].sort((left, right) => compareIds(left.id, right.id)))
  }

  #ownIds(): string[] {
    return this.#held.ids.filter((id) => compareIds(id, this.#seen) > 0)
  }

  #free(): number {
    const free = this.#settings.share() - this.#held.size
    if (free <= 0 || this.#keys.size + this.#delayed.size < mostWaiting) return free
    if (!this.#warned) {
      const text = `${mostWaiting} messages wait to be tried again, or behind others of their key; the shard is not read on until some of those are done.`
      this.#settings.logger.warn({ stream: this.#group.stream }, text)
    }
    this.#warned = true
    return 0
  }

  #accept(entries: readonly DeliveredEntry[]): void {
    const { stream } = this.#group
    const offered: HeldEntry[] = []
    for (const { id, fields, deliveries } of entries) {
      if (compareIds(id, this.#seen) > 0) this.#seen = id
      if (fields === undefined) {
        reportDeleted(this.#settings.logger, stream, id)
        continue
      }
      const key = this.#settings.keyOf({ stream, id, fields })
      if (key !== undefined) this.#keyOf.set(id, key)
      if (key === undefined || this.#keys.take(key)) {
        offered.push(this.#hold(id, fields, deliveries))
      } else {
        const roomForFields = this.#withFields < this.#settings.share()
        if (roomForFields) this.#withFields += 1
        this.#keys.push(key, { id, deliveries, fields: roomForFields ? fields : undefined })
      }
    }
    if (offered.length > 0) this.#settings.offer(offered)
  }

  #hold(id: string, fields: readonly Buffer[], deliveries: number): HeldEntry {
    const entry: HeldEntry = { shard: this, stream: this.#group.stream, id, fields, deliveries, yielded: false, loss: undefined }
    this.#held.add(entry)
    return entry
  }

  /** The entry is done: the next one of its key is delivered. */
  #advance(id: string): void {
    const key = this.#keyOf.get(id)
    this.#keyOf.delete(id)
    if (key === undefined || this.#ending.signal.aborted) return
    const next = this.#keys.next(key)
    if (next?.fields !== undefined) this.#withFields -= 1
    // The next message must not run in the context in which this one was settled.
    if (next !== undefined) outside(() => void this.#handOut(next))
    this.#room.notify()
  }

  async #handOut({ id, deliveries, fields: kept }: WaitingEntry): Promise<void> {
    const fields = kept ?? (await this.#insist(() => this.#group.fetch(id)))
    if (this.#ending.signal.aborted) return
    if (fields !== undefined) {
      this.#settings.offer([this.#hold(id, fields, deliveries)])
      return
    }
    reportDeleted(this.#settings.logger, this.#group.stream, id)
    await this.#insist(() => this.#group.settle([{ kind: 'ack', id, deliveries }]))
    this.#advance(id)
  }

  #delay(id: string, deliveries: number, delay: number): void {
    const again = () => void this.#handOutAgain(id, deliveries)
    this.#delayed.set(
      id,
      outside(() => this.#runtime.setTimeout(again, delay)),
    )
  }

  async #handOutAgain(id: string, deliveries: number): Promise<void> {
    const entry = await this.#insist(() => this.#group.takeAgain(id, deliveries))
    const isExpected = this.#delayed.delete(id)
    if (entry === undefined || !isExpected || this.#ending.signal.aborted) return
    if (entry === 'LOST') {
      this.lose()
    } else if (entry === 'GONE' || entry.fields === undefined) {
      if (entry !== 'GONE') reportDeleted(this.#settings.logger, this.#group.stream, id)
      this.#advance(id)
      this.#room.notify()
    } else {
      this.#settings.offer([this.#hold(id, entry.fields, entry.deliveries)])
    }
  }

  /** Until it is answered, or the shard is left: then `undefined`. */
  async #insist<T>(ask: () => Promise<T>): Promise<T | undefined> {
    const { signal } = this.#ending
    const { backoff } = this.#settings
    for (let attempt = 1; !signal.aborted; attempt += 1) {
      try {
        return await ask()
      } catch (error) {
        // With the group, the entry is lost too.
        if (says(error, 'NOGROUP')) return undefined
        await idle(this.#runtime, backoff(attempt, this.#runtime.random), signal)
      }
    }
    return undefined
  }

  #freed(entry: HeldEntry): void {
    // It is unknown whether the verdict was applied: the entry is read again.
    if (entry.loss === 'taken' && !this.#ending.signal.aborted) this.#delay(entry.id, entry.deliveries, 0)
    this.#room.notify()
    if (this.#hasLeft && this.#held.size === 0) void this.#end()
  }

  async #leave(): Promise<void> {
    this.#ending.abort()
    await this.#reading
    for (const timer of this.#delayed.values()) timer.cancel()
    this.#delayed.clear()
    const undelivered = Array.from(this.#keys.waiting(), ({ id }) => id)
    this.#keys.clear()
    this.#withFields = 0
    for (const entry of this.#held.all) {
      if (entry.yielded) continue
      undelivered.push(entry.id)
      this.#held.drop(entry)
    }
    for (let at = 0; at < undelivered.length && !this.#isLost; at += pageSize) {
      if (!(await this.#uncount(undelivered.slice(at, at + pageSize)))) break
    }
    this.#hasLeft = true
    if (this.#held.size === 0) await this.#end()
  }

  /** If that fails, the entries count as delivered once more than they were. */
  async #uncount(ids: readonly string[]): Promise<boolean> {
    try {
      await this.#group.uncount(ids)
      return true
    } catch {
      return false
    }
  }

  async #end(): Promise<void> {
    if (this.#hasEnded) return
    this.#hasEnded = true
    try {
      await this.#settings.lease.release()
      await this.#group.removeConsumer()
    } catch {
      // The lease expires.
    }
    this.#finish()
  }
}
