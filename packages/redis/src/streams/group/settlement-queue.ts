import { idle, outside, type Runtime } from '@ackord/core'
import { says } from '../../client/reply.ts'
import type { StreamGroup, Verdict } from './stream-group.ts'

interface Waiting {
  readonly verdict: Verdict
  readonly resolve: (answer: string) => void
  readonly reject: (error: unknown) => void
}

const batchCount = 200
const attempts = 3

/** Sends verdicts in batches: what gathers while one is under way goes with the next. */
export class SettlementQueue {
  readonly #group: StreamGroup
  readonly #runtime: Runtime
  readonly #waiting: Waiting[] = []
  #sending = false

  constructor(group: StreamGroup, runtime: Runtime) {
    this.#group = group
    this.#runtime = runtime
  }

  /** 'OK', 'GONE', 'LOST', or what the server said. Rejects when the outcome is not known. */
  settle(verdict: Verdict): Promise<string> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ verdict, resolve, reject })
      // A handler that settles must not lend its context to the verdicts of others.
      if (!this.#sending) outside(() => void this.#send())
    })
  }

  /** Never rejects. */
  async #send(): Promise<void> {
    this.#sending = true
    // What is settled in the same turn goes together.
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

  /** A letter goes alone: it may be large. */
  #next(): readonly Waiting[] {
    const firstLetter = this.#waiting.findIndex(({ verdict }) => verdict.kind === 'dead')
    const count = firstLetter === -1 ? batchCount : Math.max(1, firstLetter)
    return this.#waiting.splice(0, Math.min(count, batchCount))
  }

  /** Tried again when there was no answer: a verdict that was carried out before is answered 'GONE'. */
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
