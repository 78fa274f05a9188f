import { idle, type Runtime, type Timer } from '@ackord/core'
import type { KafkaPartition } from '../port.ts'

export interface OffsetCommitsOptions {
  readonly interval: number
  readonly runtime: Runtime
  /** The offset that may be committed now, per partition. */
  readonly positions: () => readonly (KafkaPartition & { readonly offset: bigint })[]
  readonly commit: (offsets: readonly (KafkaPartition & { readonly offset: string })[]) => Promise<void>
  readonly onFailure: (error: unknown) => void
}

/** Milliseconds. */
const retryPause = 100
const maxRefusals = 5

/** Commits positions, one call at a time, some time after they have changed. The next commit makes up for a failed one. */
export class OffsetCommits {
  readonly #options: OffsetCommitsOptions
  readonly #committed = new Map<string, bigint>()
  #timer: Timer | undefined
  #stopped = false
  #committing: Promise<void> | undefined

  constructor(options: OffsetCommitsOptions) {
    this.#options = options
  }

  /** A position may have changed. */
  changed(): void {
    this.#plan(this.#options.interval)
  }

  /** Tries a refused commit again, after a pause even if the interval is 0. */
  changedAfterFailure(): void {
    this.#plan(Math.max(this.#options.interval, retryPause))
  }

  /** Another consumer may have committed an offset of the partition meanwhile. */
  forget(partition: KafkaPartition): void {
    this.#committed.delete(nameOf(partition))
  }

  /** Commits the current positions. Never rejects. */
  async flush(): Promise<void> {
    this.#timer?.cancel()
    this.#timer = undefined
    while (this.#committing !== undefined) await this.#committing
    const due = this.#due()
    if (due.length === 0) return
    this.#committing = this.#commit(due)
    await this.#committing
  }

  /** Commits until nothing is left, including messages that are settled meanwhile. After five refusals the rest is left to the next reader. Never rejects. */
  async drain(): Promise<void> {
    for (let refusals = 0; refusals < maxRefusals && !this.#stopped; ) {
      const due = this.#due()
      if (due.length === 0 && this.#committing === undefined) return
      await this.flush()
      if (this.#due().length === 0) continue
      refusals += 1
      await idle(this.#options.runtime, retryPause)
    }
  }

  stop(): void {
    this.#stopped = true
    this.#timer?.cancel()
    this.#timer = undefined
  }

  #plan(delay: number): void {
    this.#timer ??= this.#options.runtime.setTimeout(() => void this.flush(), delay, { keepAlive: false })
  }

  #due(): readonly (KafkaPartition & { readonly offset: bigint })[] {
    return this.#options.positions().filter((each) => this.#committed.get(nameOf(each)) !== each.offset)
  }

  async #commit(due: readonly (KafkaPartition & { readonly offset: bigint })[]): Promise<void> {
    try {
      await this.#options.commit(due.map(({ topic, partition, offset }) => ({ topic, partition, offset: String(offset) })))
      for (const each of due) this.#committed.set(nameOf(each), each.offset)
    } catch (error) {
      this.#options.onFailure(error)
    } finally {
      this.#committing = undefined
    }
  }
}

function nameOf({ topic, partition }: KafkaPartition): string {
  return `${topic} ${partition}`
}
