import { AckordError, idle, outside, type Runtime } from '@ackord/core'
import { sourceDisposedError } from '@ackord/core/broker'
import { says } from '../../client/reply.ts'
import type { StreamGroup, Verdict } from '../group/stream-group.ts'
import type { HeldEntry, Loss } from './shard.ts'

/** The deliveries of a shard that are not settled yet. */
export class HeldEntries {
  readonly #queue: SettlementQueue
  readonly #entries = new Map<string, HeldEntry>()
  readonly #orphans = new Set<HeldEntry>()
  readonly #settling = new Map<HeldEntry, Promise<string>>()
  readonly #onFree: (entry: HeldEntry) => void

  /** `onFree` is called with each delivery that has ended, except dropped ones. */
  constructor(group: StreamGroup, runtime: Runtime, onFree: (entry: HeldEntry) => void) {
    this.#queue = new SettlementQueue(group, runtime)
    this.#onFree = onFree
  }

  get size(): number {
    return this.#entries.size + this.#orphans.size
  }

  /** The ids in the group. */
  get ids(): string[] {
    return [...this.#entries.keys()]
  }

  get all(): HeldEntry[] {
    return [...this.#entries.values(), ...this.#orphans]
  }

  add(entry: HeldEntry): void {
    this.#entries.set(entry.id, entry)
  }

  get(id: string): HeldEntry | undefined {
    return this.#entries.get(id)
  }

  has(id: string): boolean {
    return this.#entries.has(id)
  }

  holds(entry: HeldEntry): boolean {
    return this.#entries.get(entry.id) === entry || this.#orphans.has(entry)
  }

  /** Removes a delivery that was not yielded. */
  drop(entry: HeldEntry): void {
    if (!this.#orphans.delete(entry) && this.holds(entry)) this.#entries.delete(entry.id)
  }

  /** Their group is lost. Handlers may finish, but their verdicts are not sent: a stream that is created again may have other entries with the same ids. */
  orphanAll(): void {
    for (const entry of this.#entries.values()) this.#orphans.add(entry)
    this.#entries.clear()
  }

  lose(entry: HeldEntry, loss: Loss): void {
    entry.loss = loss
    this.#letGo(entry)
  }

  /** Without calling `onFree`: nothing more is read. */
  loseAll(loss: Loss): void {
    for (const entry of this.all) entry.loss = loss
    this.#entries.clear()
    this.#orphans.clear()
  }

  /** The entry was not pending for this consumer a moment ago. */
  missed(id: string): void {
    const entry = this.#entries.get(id)
    // An entry that was settled meanwhile is not pending either.
    if (entry !== undefined && !this.#settling.has(entry)) this.lose(entry, 'taken')
  }

  /**
   * Rejects if another consumer has the delivery, if there was no answer, or if the server refused; only in the last case the delivery is kept.
   * Without an answer it may still be pending: then a consumer finds it idle, and it is delivered again.
   */
  async settle(entry: HeldEntry, verdict: Verdict): Promise<void> {
    if (!this.holds(entry)) throw lossError(entry)
    if (this.#orphans.has(entry)) {
      this.#letGo(entry)
      return
    }
    const settling = this.#queue.settle(verdict)
    this.#settling.set(entry, settling)
    let answer: string
    try {
      answer = await settling
    } catch (cause) {
      this.lose(entry, 'taken')
      throw unsettled(entry, cause)
    } finally {
      this.#settling.delete(entry)
    }
    if (answer === 'OK' || answer === 'GONE') {
      this.#letGo(entry)
    } else if (answer === 'LOST') {
      this.lose(entry, 'taken')
      throw lossError(entry)
    } else {
      throw unsettled(entry, new Error(answer))
    }
  }

  /** Resolves when all verdicts that were sent are answered. */
  async answered(): Promise<void> {
    await Promise.allSettled(this.#settling.values())
  }

  #letGo(entry: HeldEntry): void {
    if (!this.holds(entry)) return
    this.drop(entry)
    this.#onFree(entry)
  }
}

export function lossError({ id, stream, loss }: HeldEntry): AckordError {
  if (loss === 'disposed') return sourceDisposedError(`entry ${id} of stream '${stream}'`)
  const text = `Entry ${id} of stream '${stream}' was taken over by another consumer, or its group was deleted; the late verdict has no effect. If handlers are slow, set a longer claimIdle or lease on the source.`
  return new AckordError('ACKORD_LEASE_LOST', text)
}

/** The server refused the verdict, or did not answer. */
function unsettled({ id, stream }: HeldEntry, cause: unknown): AckordError {
  const text = `Redis did not accept the verdict on entry ${id} of stream '${stream}'; unless it was carried out all the same, the entry is delivered again.`
  return new AckordError('ACKORD_LEASE_LOST', text, { cause })
}

interface Waiting {
  readonly verdict: Verdict
  readonly resolve: (answer: string) => void
  readonly reject: (error: unknown) => void
}

const batchCount = 200
const attempts = 3

/** Sends verdicts in batches: verdicts that arrive while one batch is sent share the next. */
class SettlementQueue {
  readonly #group: StreamGroup
  readonly #runtime: Runtime
  readonly #waiting: Waiting[] = []
  #sending = false

  constructor(group: StreamGroup, runtime: Runtime) {
    this.#group = group
    this.#runtime = runtime
  }

  /** 'OK', 'GONE', 'LOST', or the error of the server. Rejects if the outcome is unknown. */
  settle(verdict: Verdict): Promise<string> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ verdict, resolve, reject })
      // The verdicts of others must not run in the context of the handler that settles.
      if (!this.#sending) outside(() => void this.#send())
    })
  }

  /** Never rejects. */
  async #send(): Promise<void> {
    this.#sending = true
    // Verdicts of the same turn share a batch.
    await this.#runtime.yield?.()
    while (this.#waiting.length > 0) {
      const batch = this.#next()
      try {
        const answers = await this.#settle(batch.map(({ verdict }) => verdict))
        for (const [index, { resolve }] of batch.entries()) resolve(answers[index] ?? 'LOST')
      } catch (error) {
        for (const { reject } of batch) reject(error)
      }
    }
    this.#sending = false
  }

  /** A dead letter is sent alone: it may be large. */
  #next(): readonly Waiting[] {
    const firstLetter = this.#waiting.findIndex(({ verdict }) => verdict.kind === 'dead')
    const count = firstLetter === -1 ? batchCount : Math.max(1, firstLetter)
    return this.#waiting.splice(0, Math.min(count, batchCount))
  }

  /** Retried if there was no answer: a verdict that was applied before is answered 'GONE'. */
  async #settle(verdicts: readonly Verdict[]): Promise<readonly string[]> {
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await this.#group.settle(verdicts)
      } catch (error) {
        if (says(error, 'NOGROUP')) return verdicts.map(() => 'LOST')
        if (attempt === attempts) throw error
        await idle(this.#runtime, 100 * attempt)
      }
    }
  }
}
