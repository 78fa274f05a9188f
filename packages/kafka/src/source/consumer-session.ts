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
 *     consuming ─ leave() ─▶ leaving: nothing more is handed out, messages being handled can be settled ─ all are settled ─▶ closed
 *     consuming, leaving ─ crash, or close() ─▶ closed: the members that get the partitions continue after the committed offsets
 */
export class ConsumerSession implements SourceSession {
  /** Resolves, with the reason, when no more messages come. */
  readonly ended: Promise<unknown>
  /** Resolves when no message can be settled any more. */
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
        confirmed: () => this.#resumeAll(),
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

  /** Hands out nothing more. Closes when the last message is settled. Idempotent. */
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

  /** Commits the settled messages, and leaves the group. Idempotent. */
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

  /** The member that gets a partition starts at the committed offset. A message that is handed out from now on may be settled too late for that, and would be handled twice. */
  #revoking(): void {
    for (const { window } of this.#owned.values()) window.suspend()
    void this.#commits.flush()
  }

  #resumeAll(): void {
    for (const { window } of this.#owned.values()) window.resume()
  }

  #assigned(partitions: readonly KafkaPartition[], member: string): void {
    // If the group had removed this member, others had its partitions for a while: they are read again from the committed offsets.
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
      // The client may have dropped the pauses, or kept old ones.
      this.#setPaused(owned, this.#leaving || owned.window.size >= this.#settings.prefetch, { always: true })
    }
    this.#resumeAll()
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
    let accepted = 0
    for (const message of messages) {
      if (owned.window.size >= this.#settings.prefetch) {
        this.#setPaused(owned, true)
        break
      }
      owned.window.add(message)
      accepted += 1
    }
    return accepted
  }

  #createWindow(name: string): PartitionWindow {
    const { maxDelay, runtime } = this.#settings
    return new PartitionWindow({ maxDelay, runtime, push: this.#push, changed: () => this.#settled(name) })
  }

  #settled(name: string): void {
    this.#commits.changed()
    const owned = this.#owned.get(name)
    // Only when there is some room, so that it is not paused again right away.
    if (owned?.paused === true && !this.#leaving && owned.window.size <= this.#settings.prefetch / 2) this.#setPaused(owned, false)
    if (this.#leaving) void this.#closeIfDone()
  }

  async #closeIfDone(): Promise<void> {
    if (!this.#leaving) return
    for (const { window } of this.#owned.values()) if (window.handling > 0) return
    await this.close()
  }

  #setPaused(owned: Owned, paused: boolean, options: { readonly always?: boolean } = {}): void {
    if (owned.paused === paused && options.always !== true) return
    owned.paused = paused
    try {
      if (paused) this.#consumer.pause(owned)
      else this.#consumer.resume(owned)
    } catch {
      // The consumer has ended; the next one starts without pauses.
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

  /** During a rebalance nothing can be committed; afterwards the partitions that this member still has can. */
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
