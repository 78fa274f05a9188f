import assert from 'node:assert/strict'
import type { PublishResult } from '@ackord/core'
import type { ClaimedRecord, NewOutboxRecord, OutboxStore } from '@ackord/outbox'
import { commit, type RecordOptions, record } from '../outbox/outbox-world.ts'
import {
  type OnPoint,
  type PublishCall,
  type RelayPorts,
  type RelayProcess,
  type RelaySetup,
  RelayWorld,
  relayLease,
} from '../relay/relay-world.ts'

/** Shorter than the lease, as relays require. */
const setup: Partial<RelaySetup> = { publishTimeout: 20_000, maxAttempts: 100 }

/** Relays on an ordered store, and the attempts of each record, to check what arrived at the broker. */
export class OrderWorld implements AsyncDisposable {
  readonly relays: RelayWorld
  /** The highest attempt of each message in a claim. */
  readonly #attempts: Map<string, number>

  private constructor(relays: RelayWorld, attempts: Map<string, number>) {
    this.relays = relays
    this.#attempts = attempts
  }

  static async open({ openStore, createRelay }: RelayPorts): Promise<OrderWorld> {
    const attempts = new Map<string, number>()
    const watched: RelayPorts = { openStore, createRelay: (store, options) => createRelay(watch(store, attempts), options) }
    return new OrderWorld(await RelayWorld.open(watched), attempts)
  }

  async add(...records: readonly NewOutboxRecord[]): Promise<void> {
    await commit(this.relays.outbox, ...records)
  }

  start(changes: Partial<RelaySetup> = {}, onPoint: OnPoint = () => {}): Promise<RelayProcess> {
    return this.relays.start(onPoint, { ...setup, ...changes })
  }

  /** Sets the answer of the broker for each message. `undefined` confirms it. */
  refuse(judge: (id: string, call: PublishCall) => Omit<Extract<PublishResult, { ok: false }>, 'ok'> | undefined): void {
    this.relays.answer = async (call) =>
      call.messages.map(({ id = '' }) => {
        const failure = judge(id, call)
        return failure === undefined ? { ok: true } : { ok: false, ...failure }
      })
  }

  /** Waits until the outbox is empty. Fails after `limit` milliseconds. */
  async drained(limit?: number): Promise<void> {
    await this.relays.until(() => this.relays.isEmpty(), 'everything is published', limit)
  }

  /** The ids of a key that arrived, without duplicates, in the order of their first arrival. */
  firstOf(key: string): string[] {
    return [...new Set(this.relays.arrived)].filter((id) => id.startsWith(`${key}/`))
  }

  get duplicates(): number {
    return this.relays.arrived.length - new Set(this.relays.arrived).size
  }

  /**
   * A record may arrive twice only if another relay took it over from an owner that had claimed it: then it has more attempts than refusals that reached a relay.
   * A publish that the relay gave up is released and counts as no attempt, because it is unknown whether the record caused it; if the message has arrived
   * nevertheless, one more arrival is allowed.
   */
  checkDuplicates(): void {
    const givenUp = countsOf(this.relays.givenUp)
    const refused = countsOf(this.relays.refused)
    for (const [id, arrivals] of countsOf(this.relays.arrived)) {
      const attempts = this.#attempts.get(id) ?? 0
      const refusals = refused.get(id) ?? 0
      const abandoned = givenUp.get(id) ?? 0
      const takenOver = attempts - 1 > refusals
      assert.ok(
        takenOver || arrivals - abandoned <= 1,
        `${id} arrived more than once without a takeover: ${arrivals} arrivals, ${attempts} attempts, ${refusals} refusals, ${abandoned} given up`,
      )
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.relays[Symbol.asyncDispose]()
  }
}

function countsOf(ids: readonly string[]): ReadonlyMap<string, number> {
  const counts = new Map<string, number>()
  for (const id of ids) counts.set(id, (counts.get(id) ?? 0) + 1)
  return counts
}

/** Longer than any membership. */
export const pastLease: number = relayLease + 10_000

function watch(store: OutboxStore, attempts: Map<string, number>): OutboxStore {
  return {
    ...store,
    async claim(options) {
      const claimed = await store.claim(options)
      for (const { message, attempts: count } of claimed)
        attempts.set(message.id ?? '', Math.max(count, attempts.get(message.id ?? '') ?? 0))
      return claimed
    },
  }
}

/** A record with an ordering key. Its id is made of the key and the number, so that failures are readable. */
export function keyed(key: string, number: number, options: RecordOptions = {}): NewOutboxRecord {
  return record(keyedId(key, number), { ...options, attributes: { partitionkey: key, ...options.attributes } })
}

/** Numbers `from` to `from + count - 1` of one key. */
export function keyedRun(
  key: string,
  count: number,
  options: RecordOptions & { readonly from?: number | undefined } = {},
): NewOutboxRecord[] {
  const { from = 1, ...rest } = options
  return Array.from({ length: count }, (_, index) => keyed(key, from + index, rest))
}

export function keyedIds(key: string, ...numbers: readonly number[]): string[] {
  return numbers.map((number) => keyedId(key, number))
}

export function upTo(count: number): number[] {
  return Array.from({ length: count }, (_, index) => index + 1)
}

export function keyNames(count: number, prefix = 'k'): string[] {
  return upTo(count).map((number) => `${prefix}${number}`)
}

export function keyOf({ message }: ClaimedRecord): string {
  return String(message.attributes['partitionkey'] ?? '')
}

export function ofKey(claimed: readonly ClaimedRecord[], key: string): ClaimedRecord[] {
  return claimed.filter((one) => keyOf(one) === key)
}

function keyedId(key: string, number: number): string {
  return `${key}/${String(number).padStart(4, '0')}`
}
