import type { Runtime } from '@ackord/core'
import type { RedisArgument } from '../port.ts'
import { Bell } from './bell.ts'
import { nextId } from './entry-id.ts'
import { says } from './error-text.ts'
import { FreshEntries } from './fresh-entries.ts'
import { HeldEntries } from './held-entries.ts'
import type { HeldEntry } from './held-entry.ts'
import { deadAfter, type Reading, reportDeleted, type Shard, type ShardSettings } from './shard.ts'
import { ShardHealth } from './shard-health.ts'
import type { DeliveredEntry, PendingEntry, StreamGroup } from './stream-group.ts'

const pageSize = 500

/**
 * One of several consumers that share a stream, in no order.
 *
 * An entry is pending at the server from being read to being acked. What is held here is kept by a heartbeat; what a dead consumer held goes to
 * whoever finds it idle; what was nacked waits in a zset of the group, for any of them. So each pending entry has exactly one way on.
 */
export class CompetingShard implements Shard, Reading {
  readonly finished: Promise<void>
  readonly #settings: ShardSettings
  readonly #group: StreamGroup
  readonly #runtime: Runtime
  readonly #health: ShardHealth
  readonly #held: HeldEntries
  readonly #ending = new AbortController()
  // Later than `ending`: what is in hand is kept until it is settled.
  readonly #over = new AbortController()
  readonly #room: Bell
  readonly #due: Bell
  readonly #upkeep: Bell
  #asked = 0
  #dueWaitsForRoom = false
  #reading: Promise<unknown> = Promise.resolve()
  #leaving: Promise<void> | undefined
  #hasLeft = false
  #finish: () => void = () => {}

  constructor(settings: ShardSettings) {
    const { redis, group, backoff, logger } = settings
    const { runtime } = redis
    this.#settings = settings
    this.#group = group
    this.#runtime = runtime
    this.#health = new ShardHealth(group.stream, { backoff, runtime, logger })
    this.#held = new HeldEntries(group, runtime, () => this.#freed())
    this.#room = new Bell(runtime)
    this.#due = new Bell(runtime)
    this.#upkeep = new Bell(runtime)
    this.finished = new Promise((resolve) => {
      this.#finish = resolve
    })
  }

  async run(): Promise<void> {
    void this.#maintain()
    const reading = Promise.all([this.#read(), this.#takeDue()])
    this.#reading = reading.catch(() => {})
    await reading
  }

  holds(entry: HeldEntry): boolean {
    return this.#held.holds(entry)
  }

  async ack(entry: HeldEntry): Promise<void> {
    await this.#held.settle(entry, { kind: 'ack', id: entry.id, deliveries: entry.deliveries })
  }

  async nack(entry: HeldEntry, delay: number, counts: boolean): Promise<void> {
    const { id, deliveries } = entry
    await this.#held.settle(entry, { kind: 'nack', id, deliveries, delay, count: counts ? deliveries : deliveries - 1 })
    this.#due.ring()
  }

  async reject(entry: HeldEntry, letter: readonly RedisArgument[]): Promise<void> {
    await this.#held.settle(entry, { kind: 'dead', id: entry.id, deliveries: entry.deliveries, letter })
  }

  leave(): Promise<void> {
    this.#leaving ??= this.#leave()
    return this.#leaving
  }

  async dispose(): Promise<void> {
    await this.leave()
    await this.#held.answered()
    this.#held.loseAll('disposed')
    await this.#giveBack()
    await this.#end()
  }

  /** Entries that nobody has had. */
  async #read(): Promise<void> {
    const { signal } = this.#ending
    const { block, share } = this.#settings
    const fresh = new FreshEntries(this.#settings, signal)
    let answerWasLost = false
    while (!signal.aborted) {
      const free = share() - this.#held.size
      if (free <= 0) {
        await this.#room.wait(block, signal)
        continue
      }
      try {
        if (answerWasLost) await this.#takeIdle({ own: 0, others: Infinity })
        answerWasLost = false
        // What is nacked meanwhile comes by another way, and needs some room too.
        this.#asked = free - Math.floor(free / 4)
        const entries = await fresh.read(this.#asked)
        this.#asked = 0
        this.#accept(entries)
        this.#health.well()
      } catch (error) {
        this.#asked = 0
        if (signal.aborted) return
        if (fresh.isGone(error)) {
          this.#held.orphanAll()
          continue
        }
        // It may have had entries, which are pending here now, and nobody knows of them.
        answerWasLost = true
        await this.#health.failed(error, signal)
      }
    }
  }

  /** Entries that were nacked, by this consumer or another, and whose time has come. */
  async #takeDue(): Promise<void> {
    const { signal } = this.#ending
    const { block, share } = this.#settings
    while (!signal.aborted) {
      const free = Math.max(share() - this.#held.size - this.#asked, this.#held.size === 0 ? 1 : 0)
      let pause = block
      this.#dueWaitsForRoom = free <= 0
      try {
        if (free > 0) {
          const { entries, next } = await this.#group.takeDue(free)
          this.#accept(entries)
          pause = entries.length === free ? 0 : Math.min(next, block)
        }
      } catch {
        // Whoever reads tells of it.
      }
      await this.#due.wait(pause, signal)
    }
  }

  /** Keeps what is in hand; takes over what dead consumers left, and removes them. */
  async #maintain(): Promise<void> {
    const { claimIdle, claimInterval, block, redis } = this.#settings
    const { signal } = this.#over
    // Longer than any answer can take: some clients send a read again whose answer was lost, and nobody is told.
    const own = Math.ceil(block + redis.deadline)
    let scanAt = this.#runtime.now()
    while (!signal.aborted) {
      try {
        await this.#keep()
        if (!this.#ending.signal.aborted && this.#runtime.now() >= scanAt) {
          await this.#takeIdle({ own, others: claimIdle })
          await this.#group.removeDeadConsumers(deadAfter)
          scanAt = this.#runtime.now() + claimInterval
        }
      } catch {
        // Whoever reads tells of it; the next round does what this one could not.
      }
      await this.#upkeep.wait(Math.max(1, Math.min(claimIdle / 3, claimInterval)), signal)
    }
  }

  async #keep(): Promise<void> {
    const { ids } = this.#held
    for (let at = 0; at < ids.length; at += pageSize) {
      for (const id of await this.#group.keep(ids.slice(at, at + pageSize))) this.#held.missed(id)
    }
  }

  /** Takes what has been pending for so many milliseconds and is not in hand. */
  async #takeIdle(idle: { readonly own: number; readonly others: number }): Promise<void> {
    const isOwn = ({ consumer }: PendingEntry) => consumer === this.#group.consumer
    for (let from = '-'; !this.#ending.signal.aborted; ) {
      const page = await this.#group.pending(from, pageSize)
      const unknown = page.filter(({ id }) => !this.#held.has(id))
      await this.#claim(unknown.filter(isOwn), idle.own)
      await this.#claim(
        unknown.filter((entry) => !isOwn(entry)),
        idle.others,
      )
      const last = page.at(-1)
      if (last === undefined || page.length < pageSize || this.#settings.share() <= this.#held.size) return
      from = nextId(last.id)
    }
  }

  async #claim(entries: readonly PendingEntry[], idle: number): Promise<void> {
    const free = this.#settings.share() - this.#held.size
    const ids = entries.filter((entry) => entry.idle >= idle).map(({ id }) => id)
    if (free > 0 && ids.length > 0) this.#accept(await this.#group.takeOver(ids, idle, free))
  }

  #accept(entries: readonly DeliveredEntry[]): void {
    const { logger, offer } = this.#settings
    const { stream } = this.#group
    const offered: HeldEntry[] = []
    for (const { id, fields, deliveries } of entries) {
      if (fields === undefined) {
        reportDeleted(logger, stream, id)
        continue
      }
      // Two ways have crossed: the server goes by the later one.
      const crossed = this.#held.get(id)
      if (crossed !== undefined && crossed.deliveries >= deliveries) continue
      if (crossed !== undefined) this.#held.lose(crossed, 'taken')
      const entry: HeldEntry = { shard: this, stream, id, fields, deliveries, yielded: false, loss: undefined }
      this.#held.add(entry)
      offered.push(entry)
    }
    if (offered.length > 0) offer(offered)
  }

  #freed(): void {
    this.#room.ring()
    if (this.#dueWaitsForRoom) this.#due.ring()
    if (this.#hasLeft && this.#held.size === 0) void this.#end()
  }

  async #leave(): Promise<void> {
    this.#ending.abort()
    await this.#reading
    for (const entry of this.#held.all) if (!entry.yielded) this.#held.drop(entry)
    await this.#giveBack()
    this.#hasLeft = true
    if (this.#held.size === 0) await this.#end()
  }

  /** Also what an answer that was on its way would have brought. */
  async #giveBack(): Promise<void> {
    try {
      await this.#group.giveBack(this.#held.ids)
    } catch (err) {
      if (says(err, 'NOGROUP')) return
      const text = 'What was read and not handled could not be given back; others get it once it has been idle for their claimIdle.'
      this.#settings.logger.warn({ err, stream: this.#group.stream }, text)
    }
  }

  async #end(): Promise<void> {
    if (this.#over.signal.aborted) return
    this.#over.abort()
    try {
      await this.#group.removeConsumer()
    } catch {
      // Another one removes it later.
    }
    this.#finish()
  }
}
