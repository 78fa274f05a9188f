import { abortable } from '@ackord/core/internal'

/**
 * Limits the number of batches in flight; slots are granted in order of request, so no caller starves. The next batch is claimed while one is
 * settled, and sent when that is done: the store works on both concurrently, and a crash repeats no more than if the batches had run one after the
 * other.
 *
 *     acquire() ─ claim ─▶ begin() ─ send ─▶ sent(): the next batch may be claimed ─ settle ─▶ end(): the next batch may be sent
 */
export class BatchSlots {
  readonly #claiming: Semaphore
  readonly #sending: Semaphore

  constructor(count: number) {
    this.#claiming = new Semaphore(count)
    this.#sending = new Semaphore(count)
  }

  /** Resolves when a batch may be claimed. The slot must be ended. */
  async acquire(): Promise<BatchSlot> {
    await this.#claiming.acquire()
    return new BatchSlot(this.#claiming, this.#sending)
  }
}

export class BatchSlot {
  readonly #claiming: Semaphore
  readonly #sending: Semaphore
  #begun: Promise<void> | undefined
  #sent = false
  #ended = false

  constructor(claiming: Semaphore, sending: Semaphore) {
    this.#claiming = claiming
    this.#sending = sending
  }

  /** Resolves when the batch may be sent, or the signal is aborted. Idempotent. */
  async begin(signal?: AbortSignal): Promise<void> {
    this.#begun ??= this.#sending.acquire()
    if (signal === undefined) await this.#begun
    else await abortable(this.#begun, signal).catch(() => {})
  }

  /** Idempotent. */
  sent(): void {
    if (this.#sent) return
    this.#sent = true
    this.#claiming.release()
  }

  /** Idempotent. */
  end(): void {
    if (this.#ended) return
    this.#ended = true
    this.sent()
    // If no caller waits for it any more, the slot goes to the next one.
    void this.#begun?.then(() => this.#sending.release())
  }
}

class Semaphore {
  readonly #waiting: (() => void)[] = []
  #free: number

  constructor(count: number) {
    this.#free = count
  }

  acquire(): Promise<void> {
    return new Promise((resolve) => {
      if (this.#free === 0) {
        this.#waiting.push(resolve)
        return
      }
      this.#free -= 1
      resolve()
    })
  }

  release(): void {
    const next = this.#waiting.shift()
    if (next === undefined) this.#free += 1
    else next()
  }
}
