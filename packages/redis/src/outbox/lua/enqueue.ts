import { Coalescer } from '../../client/coalescer.ts'
import type { RedisArgument } from '../../client/port.ts'
import { type LuaHome, runOn } from './context.ts'
import type { LuaShard } from './layout.ts'
import type { HandOver } from './pre-lease.ts'
import type { StoredRecord } from './record-body.ts'
import { enqueueScript } from './scripts/enqueue.ts'

/** What became of a record: it is stored now, it was already, or another one is there under its id, and it is not stored. */
export type EnqueueResult = 'inserted' | 'duplicate' | 'conflict'

export interface EnqueueTerms {
  /** Whether a conflict is an error, so that nothing is stored. */
  readonly strict: boolean
  /** Whether the outbox has order per key. */
  readonly ordered: boolean
  /** Of whoever takes the records right away. Default: nobody. */
  readonly lease?: { readonly token: string; readonly duration: number } | undefined
}

/** As `ackord.enqueue` takes them. */
export function enqueueArguments(records: readonly StoredRecord[], { strict, ordered, lease }: EnqueueTerms): RedisArgument[] {
  const mode = `${strict ? '1' : '0'}${ordered ? 'o' : ''}`
  const args: RedisArgument[] = [String(records.length), mode, lease?.token ?? '', String(Math.ceil(lease?.duration ?? 0))]
  for (const { id, lane, destination, print, delay, body } of records) args.push(id, lane, destination, print, String(delay), body)
  return args
}

export interface EnqueueAnswer {
  /** By the server's clock. */
  readonly now: number
  readonly results: readonly EnqueueResult[]
}

const signs: Readonly<Record<string, EnqueueResult>> = { '+': 'inserted', '=': 'duplicate', '!': 'conflict' }

export function readEnqueueAnswer(reply: string): EnqueueAnswer {
  const colon = reply.indexOf(':')
  return { now: Number(reply.slice(0, colon)), results: Array.from(reply.slice(colon + 1), (sign) => signs[sign] ?? 'conflict') }
}

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
    const answer = String(
      await runOn(this.#home, shard, enqueueScript, enqueueArguments(records, { strict: false, ordered: this.#home.ordered, lease })),
    )
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
