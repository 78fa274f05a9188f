import type { Runtime } from '@ackord/core'
import { startStopwatch } from '@ackord/core/internal'
import type { ClaimedRecord, RecordTaker } from '@ackord/outbox'
import { Coalescer } from '../../client/coalescer.ts'
import type { RedisArgument } from '../../client/port.ts'
import { type LuaOutboxContext, runOn } from './context.ts'
import type { LuaShard } from './layout.ts'
import { readBody, type StoredRecord } from './record-body.ts'
import { enqueueScript } from './scripts/enqueue.ts'

/** Whether a record was stored, was stored before, or was not stored because a different record has its id. */
export type EnqueueResult = 'inserted' | 'duplicate' | 'conflict'

export interface EnqueueTerms {
  /** Whether a conflict is an error, so that nothing is stored. */
  readonly strict: boolean
  /** Whether the outbox has order per key. */
  readonly ordered: boolean
  /** The lease of a relay that receives the records without a claim. Default: none. */
  readonly lease?: { readonly token: string; readonly duration: number } | undefined
}

/** The arguments of `ackord.enqueue`. */
export function enqueueArguments(records: readonly StoredRecord[], { strict, ordered, lease }: EnqueueTerms): RedisArgument[] {
  const mode = `${strict ? '1' : '0'}${ordered ? 'o' : ''}`
  const args: RedisArgument[] = [String(records.length), mode, lease?.token ?? '', String(Math.ceil(lease?.duration ?? 0))]
  for (const { id, destinationHash, destination, print, delay, body, origin } of records)
    args.push(id, destinationHash, destination, print, String(delay), body, origin)
  return args
}

interface EnqueueAnswer {
  /** By the server's clock. */
  readonly now: number
  readonly results: readonly EnqueueResult[]
}

const signs: Readonly<Record<string, EnqueueResult>> = { '+': 'inserted', '=': 'duplicate', '!': 'conflict' }

function readEnqueueAnswer(reply: string): EnqueueAnswer {
  const colon = reply.indexOf(':')
  return { now: Number(reply.slice(0, colon)), results: Array.from(reply.slice(colon + 1), (sign) => signs[sign] ?? 'conflict') }
}

interface EnqueueCall {
  readonly shard: LuaShard
  readonly records: readonly StoredRecord[]
  /** Whether a relay of this process may receive the records without a claim. */
  readonly handsOver: boolean
  readonly resolve: (results: readonly EnqueueResult[]) => void
  readonly reject: (error: unknown) => void
}

/** The maximum number of calls of `enqueue()` in one script. */
const maxCalls = 100

/**
 * Stores records without a transaction. Calls of one tick, or during an earlier script, share one script per shard: each record has a result of its own,
 * and an error (a key of another type, full memory, no answer) fails all.
 */
export class EnqueueCalls {
  readonly #context: LuaOutboxContext
  readonly #preLeases: PreLeases
  readonly #calls: Coalescer<EnqueueCall>

  constructor(context: LuaOutboxContext, preLeases: PreLeases) {
    this.#context = context
    this.#preLeases = preLeases
    this.#calls = new Coalescer({
      size: maxCalls,
      weightOf: ({ records }) => records.reduce((sum, { body }) => sum + body.length, 0),
      groupOf: ({ shard, handsOver }) => 2 * shard.number + (handsOver ? 1 : 0),
      run: (calls) => this.#run(calls),
    })
  }

  enqueue(shard: LuaShard, records: readonly StoredRecord[]): Promise<readonly EnqueueResult[]> {
    const handsOver = this.#preLeases.takes(records)
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

  /** All calls are for one shard. */
  async #store(calls: readonly EnqueueCall[]): Promise<readonly EnqueueResult[]> {
    const [{ shard, handsOver }] = calls as [EnqueueCall]
    const records = calls.length === 1 ? (calls[0] as EnqueueCall).records : calls.flatMap((call) => call.records)
    const lease = handsOver ? this.#preLeases.lease(records) : undefined
    const answer = String(
      await runOn(this.#context, shard, enqueueScript, enqueueArguments(records, { strict: false, ordered: this.#context.ordered, lease })),
    )
    lease?.handOver(shard, answer)
    return countEnqueued(this.#context, answer)
  }
}

/** Reads the results, and counts them in the metrics. */
export function countEnqueued({ metrics }: LuaOutboxContext, answer: string): readonly EnqueueResult[] {
  const { results } = readEnqueueAnswer(answer)
  if (metrics === undefined) return results
  for (const result of new Set(results)) {
    metrics.count('ackord.outbox.enqueued', results.filter((one) => one === result).length, { result })
  }
  return results
}

/** A lease with which records are stored for a relay of this process. */
interface PreLease {
  readonly token: string
  /** Milliseconds. */
  readonly duration: number
  /** Passes stored records to the relay. Duplicates are not passed on: they may be leased to others. */
  handOver(shard: LuaShard, answer: string): void
}

/** More records are not from one message, and a claim is as good for them. */
const maxRecords = 16

/** The relay of this process that receives stored records without a claim, if there is one. */
export class PreLeases {
  readonly #runtime: Runtime
  readonly #tokens: () => string
  #taker: RecordTaker | undefined

  constructor(runtime: Runtime, tokens: () => string) {
    this.#runtime = runtime
    this.#tokens = tokens
  }

  attach(taker: RecordTaker): () => void {
    this.#taker = taker
    return () => {
      if (this.#taker === taker) this.#taker = undefined
    }
  }

  /** Whether the records of one call or one transaction may be passed to the relay. */
  takes(records: readonly StoredRecord[]): boolean {
    return this.#taker !== undefined && records.length <= maxRecords && records.every(({ delay }) => delay === 0)
  }

  /** `undefined` if no relay accepts them now. */
  lease(records: readonly StoredRecord[]): PreLease | undefined {
    const taker = this.#taker
    if (taker === undefined) return undefined
    const age = startStopwatch(this.#runtime)
    const duration = taker.lease([...new Set(records.map(({ destination }) => destination))])
    if (duration === undefined) return undefined
    const token = this.#tokens()
    return {
      token,
      duration,
      handOver(shard, answer) {
        const { now, results } = readEnqueueAnswer(answer)
        const taken = records.flatMap(({ id, destination, body }, index): ClaimedRecord[] => {
          if (results[index] !== 'inserted') return []
          // Read as a claim reads it, so that publishers see no difference. The age when the lease began; `take()` gets the time since then.
          return [{ id: shard.idOf(id), token, destination, message: readBody(body).message, attempts: 1, createdAt: now, age: 0 }]
        })
        if (taken.length > 0) taker.take(taken, age())
      },
    }
  }
}
