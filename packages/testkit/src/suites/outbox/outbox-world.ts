import assert from 'node:assert/strict'
import { type Attributes, Message } from '@ackord/core'
import type { PayloadCodec } from '@ackord/core/payload'
import {
  type Claim,
  type ClaimedRecord,
  type ClaimOptions,
  MemoryOutboxStore,
  type MemoryTransaction,
  type NewEvents,
  type NewOutboxRecord,
  type OutboxAdmin,
  type OutboxReference,
  type OutboxStore,
  type Outcome,
} from '@ackord/outbox'
import { VirtualRuntime } from '../../helpers/virtual-runtime.ts'
import type { Scenario } from '../../run/scenario.ts'

/** The optional features of an implementation. Each adds scenarios; none removes any. */
export interface OutboxFeatures {
  /** Transactions have savepoints. */
  readonly savepoints: boolean
  /** `delay` is supported, as `capabilities.delay` says. */
  readonly delay: boolean
  /** Published records can be retained until `deletePublished()`. */
  readonly retain: boolean
  /** `append()` applies the codecs of the world's options. Default: false. */
  readonly codecs?: boolean | undefined
  /** The optional parts of `OutboxAdmin` exist: causes, history, groups, pauses, relays, rates, the audit, and with `delay` `cancelWaiting()`. Default: false. */
  readonly insight?: boolean | undefined
}

/** An open transaction on the store. */
export interface OutboxTransaction {
  /** Calls `append()` of the writer with this transaction. */
  append(events: NewEvents): Promise<void>
  /** Calls `cancel()` of the writer with this transaction. Only with `delay`. */
  cancel?(references: readonly OutboxReference[]): Promise<number | undefined>
  /** Runs the work inside a savepoint: released if it resolves; rolled back if it rejects, with the same error. Only with `savepoints`. */
  savepoint?(work: () => Promise<void>): Promise<void>
}

/** A transaction that the caller ends. */
export interface OpenOutboxTransaction extends OutboxTransaction {
  commit(): Promise<void>
  rollback(): Promise<void>
}

/** A separate outbox for one scenario, initially empty. Disposing it removes everything it created. */
export interface OutboxWorld extends AsyncDisposable {
  readonly store: OutboxStore & OutboxAdmin
  /** Another store object on the same data, as in another process: with its own connection, if there are connections. */
  another(): Promise<OutboxStore & OutboxAdmin>
  /** Commits if the work resolves. If it rejects, rolls back and rejects with the same error. */
  transaction(work: (transaction: OutboxTransaction) => Promise<void>): Promise<void>
  /** Begins a transaction that runs concurrently with others. Omitted if the store has one writer at a time. */
  openTransaction?(): Promise<OpenOutboxTransaction>
  /**
   * Puts the store into the state of `duration` milliseconds later. A store with its own clock does not wait: it moves all stored
   * timestamps (created, available, leased until, published, parked, those of notes, and the expiry of the members of
   * partitions) back by the same amount.
   */
  advance(duration: number): Promise<void>
}

export interface OutboxWorldOptions {
  /** Whether published records are retained. Used only with the feature `retain`. */
  readonly retain: boolean
  /** The codecs of the store, whose `append()` then encodes the data of events. Used only with the feature `codecs`. */
  readonly codecs?: readonly PayloadCodec[] | undefined
}

export type OpenOutboxWorld = (options: OutboxWorldOptions) => Promise<OutboxWorld>
export type OutboxScenario = Scenario<OpenOutboxWorld>

export const memoryOutboxFeatures: OutboxFeatures = { savepoints: true, delay: true, retain: true, codecs: true, insight: true }

/** The in-memory store with a virtual clock: an example for other worlds. */
export async function openMemoryOutboxWorld(options: OutboxWorldOptions): Promise<OutboxWorld> {
  return openWorld(options, 'none')
}

/** The same with order per key. */
export async function openOrderedMemoryOutboxWorld(options: OutboxWorldOptions): Promise<OutboxWorld> {
  return openWorld(options, 'perKey')
}

function openWorld({ retain, codecs }: OutboxWorldOptions, order: 'none' | 'perKey'): OutboxWorld {
  const runtime = new VirtualRuntime()
  const store = new MemoryOutboxStore({ retain, order, runtime, codecs })
  return {
    store,
    another: async () => store.another(),
    async transaction(work) {
      const transaction = store.begin()
      try {
        await work(transactionOf(store, transaction))
        await transaction.settled()
      } catch (error) {
        transaction.rollback()
        throw error
      }
      transaction.commit()
    },
    async openTransaction() {
      const transaction = store.begin()
      return {
        ...transactionOf(store, transaction),
        commit: async () => transaction.commit(),
        rollback: async () => transaction.rollback(),
      }
    },
    advance: (duration) => runtime.advance(duration),
    [Symbol.asyncDispose]: async () => {},
  }
}

function transactionOf(store: MemoryOutboxStore, transaction: MemoryTransaction): OutboxTransaction {
  return {
    append: (events) => store.append(transaction, events),
    cancel: (references) => store.cancel(transaction, references),
    async savepoint(work) {
      const start = transaction.savepoint()
      try {
        await work()
      } catch (error) {
        transaction.rollbackTo(start)
        throw error
      }
    },
  }
}

/** The lease in scenarios: long enough for any machine. Scenarios never wait for it. */
export const lease = 60_000
export const hour = 3_600_000
export const day: number = 24 * hour

export interface RecordOptions {
  readonly destination?: string | undefined
  readonly type?: string | undefined
  readonly data?: Uint8Array | undefined
  readonly attributes?: Attributes | undefined
  readonly delay?: number | undefined
}

export function record(id: string, options: RecordOptions = {}): NewOutboxRecord {
  const { destination = 'orders', type = 'order.placed', data = new TextEncoder().encode(`"${id}"`), attributes = {}, delay } = options
  const message = new Message(data, { id, type, source: '/orders', specversion: '1.0', ...attributes })
  return delay === undefined ? { destination, message } : { destination, message, delay }
}

/** The ids are the prefix and a number from 1. */
export function records(count: number, prefix = 'e', options: RecordOptions = {}): NewOutboxRecord[] {
  return Array.from({ length: count }, (_, index) => record(`${prefix}${index + 1}`, options))
}

export async function commit(world: OutboxWorld, ...added: readonly NewOutboxRecord[]): Promise<void> {
  await world.transaction((transaction) => transaction.append(added))
}

/** One claim, by default with a limit that no scenario reaches. */
export function claim(store: OutboxStore, options: Partial<ClaimOptions> = {}): Promise<readonly ClaimedRecord[]> {
  return store.claim({ limit: 1000, lease, ...options })
}

/** Claims repeatedly until nothing is left. */
export async function claimAll(store: OutboxStore, options: Partial<ClaimOptions> = {}): Promise<ClaimedRecord[]> {
  const all: ClaimedRecord[] = []
  while (true) {
    const some = await claim(store, options)
    if (some.length === 0) return all
    all.push(...some)
  }
}

/** The only record that can be claimed. */
export async function claimOne(store: OutboxStore, options: Partial<ClaimOptions> = {}): Promise<ClaimedRecord> {
  const claimed = await claim(store, options)
  const [only] = claimed
  if (only === undefined || claimed.length > 1) throw new Error(`expected one claimable record, found ${claimed.length}`)
  return only
}

export function idsOf(claimed: readonly { readonly message: Message }[]): (string | undefined)[] {
  return claimed.map(({ message }) => message.id)
}

/** Checks that these records were claimed, and their ages by message id. A database's clock goes on while a scenario runs, so an age may be a little higher. */
export function checkAges(claimed: readonly ClaimedRecord[], expected: Readonly<Record<string, number>>): void {
  assert.deepEqual(idsOf(claimed).toSorted(), Object.keys(expected).toSorted())
  for (const { message, age } of claimed) {
    const least = expected[message.id ?? ''] ?? 0
    assert.ok(age >= least && age < least + 60_000, `the age of ${message.id} is ${age} ms, not ${least} ms`)
  }
}

export function published({ id, token }: Claim): Outcome {
  return { id, token, result: 'published' }
}

export function failed({ id, token }: Claim, retryAfter = 0, error = 'no route'): Outcome {
  return { id, token, result: 'failed', error, retryAfter }
}

export function parked({ id, token }: Claim, error = 'too large'): Outcome {
  return { id, token, result: 'parked', error }
}

/** Commits these records and parks them. Resolves to their store ids, in order. */
export async function commitParked(world: OutboxWorld, ...added: readonly NewOutboxRecord[]): Promise<string[]> {
  await commit(world, ...added)
  const wanted = new Set(idsOf(added))
  const claimed = await claimAll(world.store)
  const [own, others] = [claimed.filter(({ message }) => wanted.has(message.id)), claimed.filter(({ message }) => !wanted.has(message.id))]
  await world.store.settle(own.map((one) => parked(one)))
  await world.store.release(others)
  const byMessage = new Map(own.map(({ id, message }) => [message.id, id]))
  return added.map(({ message }) => byMessage.get(message.id) ?? '')
}
