import type { Runtime } from '@ackord/core'
import { startStopwatch } from '@ackord/core/internal'
import type { ClaimedRecord, RecordTaker } from '@ackord/outbox'
import { readEnqueueAnswer } from './enqueue.ts'
import type { LuaShard } from './layout.ts'
import { readBody, type StoredRecord } from './record-body.ts'

/** Records that are stored already leased to a relay of this process. */
export interface PreLease {
  readonly token: string
  /** Milliseconds. */
  readonly duration: number
  /** When they are stored. Of duplicates nothing is handed over: they are somebody else's. */
  handOver(shard: LuaShard, answer: string): void
}

/** More of them are no single message's, and a claim is as good. */
const mostRecords = 16

/** The relay that takes what this process stores, if there is one. */
export class HandOver {
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

  /** Whether what is stored by one call, or one transaction, may be taken at all. */
  takes(records: readonly StoredRecord[]): boolean {
    return this.#taker !== undefined && records.length <= mostRecords && records.every(({ delay }) => delay === 0)
  }

  /** For what may be taken. `undefined` if nobody takes them now. */
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
          // Read as a claim would, so that publishers see the same either way.
          return [{ id: shard.idOf(id), token, destination, message: readBody(body).message, attempts: 1, createdAt: now }]
        })
        if (taken.length > 0) taker.take(taken, age())
      },
    }
  }
}
