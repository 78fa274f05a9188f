import type { Runtime } from '@ackord/core'
import { WakeSignal } from '@ackord/core/internal'
import type { StreamEntry } from '../entries/stream-entry.ts'
import type { StreamGroup } from '../group/stream-group.ts'
import { OrderedShard } from './ordered.ts'
import type { HeldEntry } from './shard.ts'
import { type Reading, ShardHealth, type ShardSettings, sharing } from './shard.ts'
import { ShardLease, type ShardMembers } from './shard-ownership.ts'

export interface OwnedShardsSettings extends Omit<ShardSettings, 'group' | 'share' | 'offer'> {
  /** The name of the stream without shard numbers. */
  readonly stream: string
  /** One per shard, with the key of its lease. */
  readonly shards: readonly { readonly group: StreamGroup; readonly leaseKey: string }[]
  readonly members: ShardMembers
  readonly lease: number
  readonly prefetch: number
  readonly keyOf: (entry: StreamEntry) => string | undefined
  readonly offer: (entries: readonly HeldEntry[]) => void
}

interface Owned {
  readonly shard: OrderedShard
  readonly lease: ShardLease
  leaving: boolean
}

/** Each shard is read by one instance, by a lease, and the instances share the shards evenly. An instance with too many releases one when its entries are settled. */
export class OwnedShards implements Reading {
  readonly finished: Promise<void>
  readonly #settings: OwnedShardsSettings
  readonly #runtime: Runtime
  readonly #owned = new Map<StreamGroup, Owned>()
  readonly #ending = new AbortController()
  readonly #over = new AbortController()
  readonly #health: ShardHealth
  readonly #wakeSignal: WakeSignal
  #sharing: Promise<void> = Promise.resolve()
  #looking: Promise<void> = Promise.resolve()
  #leaving: Promise<void> | undefined
  #fail: (error: unknown) => void = () => {}
  #finish: () => void = () => {}

  constructor(settings: OwnedShardsSettings) {
    const { redis, backoff, logger, stream } = settings
    this.#settings = settings
    this.#runtime = redis.runtime
    this.#health = new ShardHealth(stream, { backoff, runtime: redis.runtime, logger }, sharing)
    this.#wakeSignal = new WakeSignal(redis.runtime)
    this.finished = new Promise((resolve) => {
      this.#finish = resolve
    })
  }

  async run(): Promise<void> {
    const failed = new Promise<never>((_, reject) => {
      this.#fail = reject
    })
    this.#looking = this.#look()
    await Promise.race([this.#looking, failed])
  }

  leave(): Promise<void> {
    this.#leaving ??= this.#leave()
    return this.#leaving
  }

  async dispose(): Promise<void> {
    await this.leave()
    await Promise.all([...this.#owned.values()].map(({ shard }) => shard.dispose()))
  }

  async #look(): Promise<void> {
    const { block, lease } = this.#settings
    const { signal } = this.#over
    while (!signal.aborted) {
      try {
        await this.#renew()
        if (!this.#ending.signal.aborted) {
          this.#sharing = this.#share()
          await this.#sharing
        }
        this.#health.well()
      } catch (error) {
        if (signal.aborted) return
        await this.#health.failed(error, signal)
      }
      await this.#wakeSignal.wait(Math.min(block, lease / 3), signal)
    }
  }

  async #renew(): Promise<void> {
    const renewals = [...this.#owned.values()].map(async ({ shard, lease }) => {
      if (!(await lease.renew())) shard.lose()
    })
    await Promise.all(renewals)
  }

  async #share(): Promise<void> {
    const { shards, members, lease } = this.#settings
    const part = await members.part(shards.length, lease)
    const kept = [...this.#owned.values()].filter(({ leaving }) => !leaving)
    for (const owned of kept.slice(part)) {
      owned.leaving = true
      void owned.shard.leave()
    }
    let missing = part - kept.length
    // Each instance starts at another shard, so that they do not ask for the same one.
    const start = Math.floor(this.#runtime.random() * shards.length)
    for (let step = 0; step < shards.length && missing > 0 && !this.#ending.signal.aborted; step += 1) {
      const candidate = shards[(start + step) % shards.length]
      if (candidate === undefined || this.#owned.has(candidate.group)) continue
      if (await this.#acquire(candidate.group, candidate.leaseKey)) missing -= 1
    }
  }

  async #acquire(group: StreamGroup, key: string): Promise<boolean> {
    const { redis, prefetch } = this.#settings
    const token = `${group.consumer}:${this.#runtime.uuid()}`
    const lease = new ShardLease(redis.port, { key, token, duration: this.#settings.lease })
    if (!(await lease.acquire())) return false
    const shard = new OrderedShard({
      ...this.#settings,
      group,
      lease,
      share: () => Math.max(1, Math.floor(prefetch / this.#owned.size)),
    })
    const owned: Owned = { shard, lease, leaving: false }
    this.#owned.set(group, owned)
    void shard.finished.then(() => {
      this.#owned.delete(group)
      this.#wakeSignal.notify()
      if (this.#ending.signal.aborted) this.#endIfDone()
    })
    shard.run().catch((error: unknown) => this.#fail(error))
    // Left while the lease was being taken.
    if (this.#ending.signal.aborted) await shard.leave()
    return true
  }

  async #leave(): Promise<void> {
    this.#ending.abort()
    // It may be about to renew its membership, or to get another shard.
    await this.#sharing.catch(() => {})
    await Promise.all([...this.#owned.values()].map(({ shard }) => shard.leave()))
    try {
      await this.#settings.members.leave()
    } catch {
      // The other instances notice when its membership expires.
    }
    this.#endIfDone()
  }

  #endIfDone(): void {
    if (this.#owned.size > 0) return
    this.#over.abort()
    void this.#looking.then(this.#finish, this.#finish)
  }
}
