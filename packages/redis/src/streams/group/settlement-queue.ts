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

/** Sends verdicts in batches: verdicts that arrive while one batch is sent share the next. */
export class SettlementQueue {
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
