import { AckordError, type Logger, type Runtime } from '@ackord/core'
import type { SourceSession } from '@ackord/core/broker'
import { answerTimeout, settledWithin } from '@ackord/core/internal'
import type { KafkaConsumer, KafkaConsumerOptions, KafkaMessage, KafkaPartition, KafkaPort } from '../port.ts'
import { OffsetCommits } from './offset-commits.ts'
import { type HeldRecord, type Loss, PartitionWindow } from './partition-window.ts'

export interface SessionSettings extends KafkaConsumerOptions {
  readonly kafka: KafkaPort
  readonly prefetch: number
  readonly commitInterval: number
  readonly maxDelay: number
  readonly runtime: Runtime
  readonly logger: Logger
}

interface Owned extends KafkaPartition {
  readonly window: PartitionWindow
  paused: boolean
}

/**
 * One member of the group, with a window for each of its partitions.
 *
 *     consuming ─ leave() ─▶ leaving: nothing more is handed out, what is in hand can be settled ─ all is settled ─▶ closed
 *     consuming, leaving ─ crash, or close() ─▶ closed: whoever gets the partitions reads on from what was committed
 */
export class ConsumerSession implements SourceSession {
  /** Resolves when nothing more comes, with the reason. */
  readonly ended: Promise<unknown>
  /** Resolves when nothing can be settled any more. */
  readonly closed: Promise<void>
  readonly #settings: SessionSettings
  readonly #push: (record: HeldRecord) => void
  readonly #consumer: KafkaConsumer
  readonly #commits: OffsetCommits
  readonly #owned = new Map<string, Owned>()
  #member: string | undefined
  #leaving = false
  #commitFailed = false
  #closing: Promise<void> | undefined
  #onEnded: (reason: unknown) => void = () => {}
  #onClosed: () => void = () => {}

  constructor(settings: SessionSettings, push: (record: HeldRecord) => void) {
    this.#settings = settings
    this.#push = push
    this.ended = new Promise((resolve) => {
      this.#onEnded = resolve
    })
    this.closed = new Promise((resolve) => {
      this.#onClosed = resolve
    })
    const { kafka, runtime, commitInterval, group, topics, from } = settings
    this.#consumer = kafka.consumer(
      { group, topics, from },
      {
        assigned: (partitions, member) => this.#assigned(partitions, member),
        revoking: () => this.#revoking(),
        confirmed: () => this.#goOn(),
        fetched: (partition, messages) => this.#fetched(partition, messages),
        crashed: (error) => void this.#crashed(error),
      },
    )
    this.#commits = new OffsetCommits({
      interval: commitInterval,
      runtime,
      positions: () => this.#positions(),
      commit: (offsets) => this.#commit(offsets),
      onFailure: (error) => this.#commitRefused(error),
    })
  }

  async start(): Promise<void> {
    try {
      await this.#consumer.start()
    } catch (error) {
      await this.close('lost')
      throw error
    }
  }

  /** Hands out nothing more. Closes with the last settlement. Idempotent. */
  async leave(): Promise<void> {
    if (!this.#leaving) {
      this.#leaving = true
      for (const owned of this.#owned.values()) {
        owned.window.leave()
        this.#setPaused(owned, true)
      }
    }
    await this.#closeIfDone()
  }

  /** Commits what is settled, and leaves the group. Idempotent. */
  close(loss: Loss = 'disposed'): Promise<void> {
    this.#closing ??= this.#close(loss)
    return this.#closing
  }

  async #close(loss: Loss): Promise<void> {
    const { runtime } = this.#settings
    await settledWithin(runtime, answerTimeout, this.#commits.drain())
    this.#lose(loss)
    await settledWithin(runtime, answerTimeout, this.#consumer.close())
  }

  async #crashed(error: unknown): Promise<void> {
    this.#onEnded(error)
    this.#lose('lost')
    await this.close('lost')
  }

  #lose(loss: Loss): void {
    this.#commits.stop()
    for (const { window } of this.#owned.values()) window.lose(loss)
    this.#owned.clear()
    this.#onEnded(new AckordError('ACKORD_SOURCE_FAILED', 'The consumer was closed.'))
    this.#onClosed()
  }

  /** Whoever gets a partition begins at what was committed. What is handed out from now on may be settled too late for that, and would be handled twice. */
  #revoking(): void {
    for (const { window } of this.#owned.values()) window.holdBack()
    void this.#commits.flush()
  }

  #goOn(): void {
    for (const { window } of this.#owned.values()) window.goOn()
  }

  #assigned(partitions: readonly KafkaPartition[], member: string): void {
    // What the group took from us as a whole was others' for a while: it is read anew from what was committed.
    const kept = member === this.#member ? new Set(partitions.map(nameOf)) : new Set<string>()
    this.#member = member
    for (const [name, owned] of this.#owned) {
      if (kept.has(name)) continue
      owned.window.lose('lost')
      this.#commits.forget(owned)
      this.#owned.delete(name)
    }
    for (const { topic, partition } of partitions) {
      const name = nameOf({ topic, partition })
      const owned = this.#owned.get(name) ?? { topic, partition, window: this.#createWindow(name), paused: false }
      this.#owned.set(name, owned)
      // The client may have forgotten what was paused, or remember it from another time.
      this.#setPaused(owned, this.#leaving || owned.window.size >= this.#settings.prefetch, { always: true })
    }
    this.#goOn()
    void this.#closeIfDone()
  }

  #fetched(partition: KafkaPartition, messages: readonly KafkaMessage[]): number {
    const name = nameOf(partition)
    let owned = this.#owned.get(name)
    if (owned === undefined || this.#leaving) return 0
    const [first] = messages
    if (first !== undefined && owned.window.isBehind(first)) {
      owned.window.lose('lost')
      this.#commits.forget(owned)
      owned = { ...owned, window: this.#createWindow(name) }
      this.#owned.set(name, owned)
    }
    let taken = 0
    for (const message of messages) {
      if (owned.window.size >= this.#settings.prefetch) {
        this.#setPaused(owned, true)
        break
      }
      owned.window.take(message)
      taken += 1
    }
    return taken
  }

  #createWindow(name: string): PartitionWindow {
    const { maxDelay, runtime } = this.#settings
    return new PartitionWindow({ maxDelay, runtime, push: this.#push, changed: () => this.#settled(name) })
  }

  #settled(name: string): void {
    this.#commits.changed()
    const owned = this.#owned.get(name)
    // With some room at once, so that it is not paused again right away.
    if (owned?.paused === true && !this.#leaving && owned.window.size <= this.#settings.prefetch / 2) this.#setPaused(owned, false)
    if (this.#leaving) void this.#closeIfDone()
  }

  async #closeIfDone(): Promise<void> {
    if (!this.#leaving) return
    for (const { window } of this.#owned.values()) if (window.inHand > 0) return
    await this.close()
  }

  #setPaused(owned: Owned, paused: boolean, options: { readonly always?: boolean } = {}): void {
    if (owned.paused === paused && options.always !== true) return
    owned.paused = paused
    try {
      if (paused) this.#consumer.pause(owned)
      else this.#consumer.resume(owned)
    } catch {
      // It has ended; the next one begins without pauses.
    }
  }

  #positions(): (KafkaPartition & { readonly offset: bigint })[] {
    return [...this.#owned.values()].flatMap(({ topic, partition, window }) => {
      const offset = window.position
      return offset === undefined ? [] : [{ topic, partition, offset }]
    })
  }

  async #commit(offsets: readonly (KafkaPartition & { readonly offset: string })[]): Promise<void> {
    await this.#consumer.commit(offsets)
    this.#commitFailed = false
  }

  /** While the group is divided anew nothing can be committed; afterwards what is still ours can. */
  #commitRefused(error: unknown): void {
    const { logger, group } = this.#settings
    if (!this.#commitFailed)
      logger.warn({ err: error, group }, 'Offsets could not be committed. It is tried again; until then a crash would repeat messages.')
    this.#commitFailed = true
    if (this.#closing === undefined) this.#commits.changedAfterFailure()
  }
}

function nameOf({ topic, partition }: KafkaPartition): string {
  return `${partition} ${topic}`
}
