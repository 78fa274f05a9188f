import type { Runtime } from '@ackord/core'
import { startStopwatch } from '@ackord/core/internal'
import type { ClaimedRecord, RecordTaker } from '@ackord/outbox'
import { readEnqueueAnswer } from './enqueue.ts'
import type { LuaShard } from './layout.ts'
import { readBody, type StoredRecord } from './record-body.ts'

/** A lease with which records are stored for a relay of this process. */
export interface PreLease {
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
          // Read as a claim reads it, so that publishers see no difference.
          return [{ id: shard.idOf(id), token, destination, message: readBody(body).message, attempts: 1, createdAt: now }]
        })
        if (taken.length > 0) taker.take(taken, age())
      },
    }
  }
}
