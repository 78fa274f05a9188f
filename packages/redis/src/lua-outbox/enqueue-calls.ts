import { Coalescer } from '../coalescer.ts'
import { type EnqueueResult, enqueueArguments, readEnqueueAnswer } from './enqueue-arguments.ts'
import type { HandOver } from './hand-over.ts'
import type { LuaShard } from './layout.ts'
import { type LuaHome, runOn } from './lua-home.ts'
import type { StoredRecord } from './record-body.ts'
import { enqueueScript } from './scripts/enqueue.ts'

interface EnqueueCall {
  readonly shard: LuaShard
  readonly records: readonly StoredRecord[]
  /** Whether a relay of this process may have them without a claim. */
  readonly handsOver: boolean
  readonly resolve: (results: readonly EnqueueResult[]) => void
  readonly reject: (error: unknown) => void
}

/** How many calls of `enqueue()` one script takes. */
const mostCalls = 100

/**
 * Stores records without a transaction. What comes in one tick, or while others are on their way, goes in one call of the script for each shard: each record is answered
 * by itself, and what fails one (a key of another type, full memory, no answer) fails all.
 */
export class EnqueueCalls {
  readonly #home: LuaHome
  readonly #handOver: HandOver
  readonly #calls: Coalescer<EnqueueCall>

  constructor(home: LuaHome, handOver: HandOver) {
    this.#home = home
    this.#handOver = handOver
    this.#calls = new Coalescer({
      size: mostCalls,
      weightOf: ({ records }) => records.reduce((sum, { body }) => sum + body.length, 0),
      groupOf: ({ shard, handsOver }) => 2 * shard.number + (handsOver ? 1 : 0),
      run: (calls) => this.#run(calls),
    })
  }

  enqueue(shard: LuaShard, records: readonly StoredRecord[]): Promise<readonly EnqueueResult[]> {
    const handsOver = this.#handOver.takes(records)
    return new Promise((resolve, reject) => this.#calls.add({ shard, records, handsOver, resolve, reject }))
  }

  async #run(calls: readonly EnqueueCall[]): Promise<void> {
    try {
      const results = await this.#store(calls)
      let at = 0
      for (const { records, resolve } of calls) {
        resolve(results.slice(at, at + records.length))
        at += records.length
      }
    } catch (error) {
      for (const { reject } of calls) reject(error)
    }
  }

  /** All are of one shard. */
  async #store(calls: readonly EnqueueCall[]): Promise<readonly EnqueueResult[]> {
    const [{ shard, handsOver }] = calls as [EnqueueCall]
    const records = calls.length === 1 ? (calls[0] as EnqueueCall).records : calls.flatMap((call) => call.records)
    const lease = handsOver ? this.#handOver.lease(records) : undefined
    const answer = String(await runOn(this.#home, shard, enqueueScript, enqueueArguments(records, { strict: false, lease })))
    lease?.handOver(shard, answer)
    return countEnqueued(this.#home, answer)
  }
}

/** What became of each, which is also counted. */
export function countEnqueued({ metrics }: LuaHome, answer: string): readonly EnqueueResult[] {
  const { results } = readEnqueueAnswer(answer)
  if (metrics === undefined) return results
  for (const result of new Set(results)) {
    metrics.count('ackord.outbox.enqueued', results.filter((one) => one === result).length, { result })
  }
  return results
}
