import type { Runtime, Timer } from '@ackord/core'
import type { KafkaPartition } from './port.ts'

export interface OffsetCommitsOptions {
  readonly interval: number
  readonly runtime: Runtime
  /** What may be committed now, for each partition. */
  readonly positions: () => readonly (KafkaPartition & { readonly offset: bigint })[]
  readonly commit: (offsets: readonly (KafkaPartition & { readonly offset: string })[]) => Promise<void>
  readonly onFailure: (error: unknown) => void
}

/** Commits positions, one call at a time, some time after they have changed. A commit that fails is made good by the next. */
export class OffsetCommits {
  readonly #options: OffsetCommitsOptions
  readonly #committed = new Map<string, bigint>()
  #timer: Timer | undefined
  #committing: Promise<void> | undefined

  constructor(options: OffsetCommitsOptions) {
    this.#options = options
  }

  /** A position may have changed. */
  changed(): void {
    const { runtime, interval } = this.#options
    this.#timer ??= runtime.setTimeout(() => void this.flush(), interval, { keepAlive: false })
  }

  /** Another consumer may have committed for these meanwhile. */
  forget(partition: KafkaPartition): void {
    this.#committed.delete(nameOf(partition))
  }

  /** Commits what there is now. Never rejects. */
  async flush(): Promise<void> {
    this.#timer?.cancel()
    this.#timer = undefined
    while (this.#committing !== undefined) await this.#committing
    const due = this.#options.positions().filter((each) => this.#committed.get(nameOf(each)) !== each.offset)
    if (due.length === 0) return
    this.#committing = this.#commit(due)
    await this.#committing
  }

  stop(): void {
    this.#timer?.cancel()
    this.#timer = undefined
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
