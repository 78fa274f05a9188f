import { idle, type Runtime } from '@ackord/core'
import { FailurePause, WakeSignal } from '@ackord/core/internal'
import type { RedisArgument } from '../../client/port.ts'
import { says } from '../../client/reply.ts'
import { nextId } from '../entries/stream-entry.ts'
import { FreshEntries } from '../group/blocking-reader.ts'
import type { DeliveredEntry, PendingEntry, StreamGroup } from '../group/stream-group.ts'
import { HeldEntries } from './held-entries.ts'
import type { HeldEntry } from './shard.ts'
import { deadAfter, type Reading, reportDeleted, type Shard, ShardHealth, type ShardSettings } from './shard.ts'

const pageSize = 500
/** Milliseconds for which idle entries wait for a quarter of the room, so that they are not taken over one by one. After that any room will do. */
const patience = 20

/**
 * One of several consumers that share a stream, in no order.
 *
 * An entry is pending at the server from its read to its ack. A heartbeat renews the entries of this consumer; other consumers take over the idle entries
 * of a dead consumer; nacked entries wait in a sorted set of the group, for any consumer. So each pending entry has exactly one way to go on.
 */
export class CompetingShard implements Shard, Reading {
  readonly finished: Promise<void>
  readonly #settings: ShardSettings
  readonly #group: StreamGroup
  readonly #runtime: Runtime
  readonly #health: ShardHealth
  readonly #held: HeldEntries
  readonly #ending = new AbortController()
  // Later than `ending`: entries are renewed until they are settled.
  readonly #over = new AbortController()
  readonly #room: WakeSignal
  readonly #due: WakeSignal
  readonly #upkeep: WakeSignal
  #asked = 0
  #dueWaitsForRoom = false
  /** Where the search for idle entries goes on as soon as there is room. */
  #idleFrom: string | undefined
  /** Whether the next room is for idle entries: while there are some, they and new entries take turns. */
  #isTurnOfIdle = false
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
    this.#room = new WakeSignal(runtime)
    this.#due = new WakeSignal(runtime)
    this.#upkeep = new WakeSignal(runtime)
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
    this.#due.notify()
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

  /** Reads entries that no consumer has received. */
  async #read(): Promise<void> {
    const { signal } = this.#ending
    const { block, share } = this.#settings
    const fresh = new FreshEntries(this.#settings, signal)
    let answerWasLost = false
    while (!signal.aborted) {
      const free = share() - this.#held.size
      if (free <= 0 || this.#isTurnOfIdle) {
        await this.#room.wait(block, signal)
        continue
      }
      try {
        // Before anything else: without a group there is nothing to search and nothing to read.
        await fresh.createGroup()
        if (answerWasLost) await this.#takeIdle({ own: 0, others: Infinity })
        answerWasLost = false
        // Entries that are nacked meanwhile need some room too, and entries of dead consumers even more.
        this.#asked = free - Math.floor(free / (this.#idleFrom === undefined ? 4 : 2))
        // Leaves more room than the read before it.
        if (this.#idleFrom !== undefined) this.#upkeep.notify()
        const entries = await fresh.read(this.#asked)
        this.#asked = 0
        this.#accept(entries)
        this.#health.well()
        if (entries.length > 0 && this.#idleFrom !== undefined) {
          this.#isTurnOfIdle = true
          this.#upkeep.notify()
        }
      } catch (error) {
        this.#asked = 0
        if (signal.aborted) return
        if (fresh.isGone(error)) {
          this.#held.orphanAll()
          await this.#health.lostGroup(signal)
          continue
        }
        // The lost answer may have had entries, which are pending for this consumer without its knowledge.
        answerWasLost = true
        await this.#health.failed(error, signal)
      }
    }
  }

  /** Takes entries that were nacked, by this consumer or another, and are due. */
  async #takeDue(): Promise<void> {
    const { signal } = this.#ending
    const { block, backoff } = this.#settings
    const pause = new FailurePause({ backoff, runtime: this.#runtime })
    while (!signal.aborted) {
      const free = this.#roomBesideReading()
      this.#dueWaitsForRoom = free <= 0
      try {
        let wait = block
        if (free > 0) {
          const { entries, next } = await this.#group.takeDue(free)
          this.#accept(entries)
          wait = entries.length === free ? 0 : Math.min(next, block)
        }
        pause.succeeded()
        await this.#due.wait(wait, signal)
      } catch {
        // The loop that reads logs the error.
        await pause.failed(signal)
      }
    }
  }

  /** Renews the entries of this consumer; takes over those of dead consumers, as fast as there is room, and removes these consumers. */
  async #maintain(): Promise<void> {
    const { claimIdle, claimInterval, block, redis, backoff } = this.#settings
    const { signal } = this.#over
    // Longer than any answer can take: some clients repeat a read whose answer was lost, without telling the caller.
    const own = Math.ceil(block + redis.deadline)
    const pause = new FailurePause({ backoff, runtime: this.#runtime })
    let keepAt = this.#runtime.monotonic()
    let scanAt = keepAt
    let tookAt = -Infinity
    while (!signal.aborted) {
      const now = this.#runtime.monotonic()
      let wait = 0
      try {
        if (now >= keepAt) {
          await this.#keep()
          keepAt = now + claimIdle / 3
        }
        if (!this.#ending.signal.aborted) {
          const isDue = now >= scanAt
          if (isDue) this.#idleFrom = '-'
          const from = this.#idleFrom
          const least = now - tookAt < patience ? Math.floor(this.#settings.share() / 4) : 1
          if (from !== undefined) this.#idleFrom = await this.#takeIdle({ own, others: claimIdle }, from, least)
          if (this.#idleFrom !== from) {
            tookAt = this.#runtime.monotonic()
            this.#endTurnOfIdle()
          }
          if (isDue) {
            await this.#group.removeDeadConsumers(deadAfter)
            scanAt = now + claimInterval
          }
        }
        pause.succeeded()
      } catch {
        // The loop that reads logs the error; the next round does what this one could not. Entries of this consumer must be renewed all the same.
        wait = Math.min(pause.next(), claimIdle / 3)
        this.#endTurnOfIdle()
      }
      if (wait > 0) {
        await idle(this.#runtime, wait, signal)
        continue
      }
      const due = [keepAt]
      if (!this.#ending.signal.aborted) {
        due.push(scanAt)
        if (this.#idleFrom !== undefined && this.#roomBesideReading() > 0) due.push(tookAt + patience)
      }
      await this.#upkeep.wait(Math.max(1, Math.min(...due) - this.#runtime.monotonic()), signal)
    }
  }

  async #keep(): Promise<void> {
    const { ids } = this.#held
    for (let at = 0; at < ids.length; at += pageSize) {
      for (const id of await this.#group.keep(ids.slice(at, at + pageSize))) this.#held.missed(id)
    }
  }

  /**
   * Takes over entries that have been idle for this many milliseconds, as long as there is room for `least`. Returns where to go on when there is
   * room again; `undefined` if it has seen all.
   */
  async #takeIdle(idleTimes: { readonly own: number; readonly others: number }, start = '-', least = 1): Promise<string | undefined> {
    const { consumer } = this.#group
    for (let from = start; !this.#ending.signal.aborted; ) {
      // A short list is enough for little room.
      const count = Math.min(pageSize, Math.max(50, 4 * this.#roomBesideReading()))
      const page = await this.#group.pending(from, count)
      const due = page.filter(
        (entry) => !this.#held.has(entry.id) && entry.idle >= (entry.consumer === consumer ? idleTimes.own : idleTimes.others),
      )
      for (let at = 0; at < due.length; ) {
        const free = this.#roomBesideReading()
        if (free < Math.max(1, least)) return due[at]?.id
        const some = due.slice(at, at + free)
        await this.#claim(
          some.filter((entry) => entry.consumer === consumer),
          idleTimes.own,
        )
        await this.#claim(
          some.filter((entry) => entry.consumer !== consumer),
          idleTimes.others,
        )
        at += some.length
      }
      const last = page.at(-1)
      if (last === undefined || page.length < count) return undefined
      from = nextId(last.id)
    }
    return undefined
  }

  #endTurnOfIdle(): void {
    if (!this.#isTurnOfIdle) return
    this.#isTurnOfIdle = false
    this.#room.notify()
  }

  async #claim(entries: readonly PendingEntry[], idleTime: number): Promise<void> {
    if (entries.length === 0) return
    const ids = entries.map(({ id }) => id)
    this.#accept(await this.#group.takeOver(ids, idleTime, ids.length))
  }

  /** How many entries may arrive in other ways than by the read that runs. */
  #roomBesideReading(): number {
    return Math.max(this.#settings.share() - this.#held.size - this.#asked, this.#held.size === 0 ? 1 : 0)
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
      // It arrived in two ways: the server counts the later one.
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
    this.#room.notify()
    if (this.#dueWaitsForRoom) this.#due.notify()
    if (this.#idleFrom !== undefined) this.#upkeep.notify()
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

  /** Including the entries of an answer that has not arrived yet. */
  async #giveBack(): Promise<void> {
    try {
      await this.#group.giveBack(this.#held.ids)
    } catch (err) {
      if (says(err, 'NOGROUP')) return
      const text = 'Entries that were read and not handled could not be released. Other consumers take them over after their claimIdle.'
      this.#settings.logger.warn({ err, stream: this.#group.stream }, text)
    }
  }

  async #end(): Promise<void> {
    if (this.#over.signal.aborted) return
    this.#over.abort()
    try {
      await this.#group.removeConsumer()
    } catch {
      // Another consumer removes it later.
    }
    this.#finish()
  }
}

/** All shards of a stream, each shared with other consumers. */
export class CompetingShards implements Reading {
  readonly finished: Promise<void>
  readonly #shards: readonly CompetingShard[]

  constructor(shards: readonly CompetingShard[]) {
    this.#shards = shards
    this.finished = Promise.all(shards.map(({ finished }) => finished)).then(() => {})
  }

  async run(): Promise<void> {
    await Promise.all(this.#shards.map((shard) => shard.run()))
  }

  async leave(): Promise<void> {
    await Promise.all(this.#shards.map((shard) => shard.leave()))
  }

  async dispose(): Promise<void> {
    await Promise.all(this.#shards.map((shard) => shard.dispose()))
  }
}
