import { type Attributes, Message } from '@ackord/core'
import {
  type Claim,
  type ClaimedRecord,
  type ClaimOptions,
  MemoryOutboxStore,
  type MemoryTransaction,
  type NewOutboxRecord,
  type OutboxAdmin,
  type OutboxReference,
  type OutboxStore,
  type Outcome,
} from '@ackord/outbox'
import { VirtualRuntime } from '../../helpers/virtual-runtime.ts'
import type { Scenario } from '../../run/scenario.ts'

/** What an implementation claims beyond the base. Each claim adds scenarios; none takes one away. */
export interface OutboxFeatures {
  /** Transactions have savepoints. */
  readonly savepoints: boolean
  /** `delay` is kept, as `capabilities.delay` says. */
  readonly delay: boolean
  /** Published records can be kept, until `deletePublished()`. */
  readonly retain: boolean
}

/** A transaction on the store, while it runs. */
export interface OutboxTransaction {
  /** The writer's `append()` with this transaction. */
  append(records: readonly NewOutboxRecord[]): Promise<void>
  /** The writer's `cancel()` with this transaction. Only with `delay`. */
  cancel?(references: readonly OutboxReference[]): Promise<number | undefined>
  /** Runs the work inside a savepoint: released if it resolves; rolled back if it rejects, with the same error. Only with `savepoints`. */
  savepoint?(work: () => Promise<void>): Promise<void>
}

/** A transaction that its holder ends. */
export interface OpenOutboxTransaction extends OutboxTransaction {
  commit(): Promise<void>
  rollback(): Promise<void>
}

/** An outbox of its own for one scenario, empty at first. Disposing it removes what it made. */
export interface OutboxWorld extends AsyncDisposable {
  readonly store: OutboxStore & OutboxAdmin
  /** Another store object on the same data, as another process has it: with its own connection where there are connections. */
  another(): Promise<OutboxStore & OutboxAdmin>
  /** Commits if the work resolves. If it rejects, rolls back and rejects with the same error. */
  transaction(work: (transaction: OutboxTransaction) => Promise<void>): Promise<void>
  /** Begins a transaction that runs beside others. Left out where there is one writer at a time. */
  openTransaction?(): Promise<OpenOutboxTransaction>
  /**
   * Afterwards the store is as it would be `duration` milliseconds later. A store with its own clock does not wait: it moves all stored
   * instants (created, available, leased until, published, parked, and until when a member of the
   * partitions counts as alive) back by as much.
   */
  advance(duration: number): Promise<void>
}

export interface OutboxWorldOptions {
  /** Whether published records are kept. Asked for only with the feature `retain`. */
  readonly retain: boolean
}

export type OpenOutboxWorld = (options: OutboxWorldOptions) => Promise<OutboxWorld>
export type OutboxScenario = Scenario<OpenOutboxWorld>

export const memoryOutboxFeatures: OutboxFeatures = { savepoints: true, delay: true, retain: true }

/** The in-memory store on a clock of its own: the model for other worlds. */
export async function openMemoryOutboxWorld(options: OutboxWorldOptions): Promise<OutboxWorld> {
  return openWorld(options, 'none')
}

/** The same with order per key. */
export async function openOrderedMemoryOutboxWorld(options: OutboxWorldOptions): Promise<OutboxWorld> {
  return openWorld(options, 'perKey')
}

function openWorld({ retain }: OutboxWorldOptions, order: 'none' | 'perKey'): OutboxWorld {
  const runtime = new VirtualRuntime()
  const store = new MemoryOutboxStore({ retain, order, runtime })
  return {
    store,
    another: async () => store.another(),
    async transaction(work) {
      const transaction = store.begin()
      try {
        await work(transactionOf(store, transaction))
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
    append: (records) => store.append(transaction, records),
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

/** The lease that scenarios take: long enough for any machine, and they never wait for it. */
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

/** Ids are the prefix and the place, from 1. */
export function records(count: number, prefix = 'e', options: RecordOptions = {}): NewOutboxRecord[] {
  return Array.from({ length: count }, (_, index) => record(`${prefix}${index + 1}`, options))
}

export async function commit(world: OutboxWorld, ...added: readonly NewOutboxRecord[]): Promise<void> {
  await world.transaction((transaction) => transaction.append(added))
}

/** One claim; with room for everything unless told otherwise. */
export function claim(store: OutboxStore, options: Partial<ClaimOptions> = {}): Promise<readonly ClaimedRecord[]> {
  return store.claim({ limit: 1000, lease, ...options })
}

/** Claims again and again, until there is nothing more. */
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
  if (only === undefined || claimed.length > 1) throw new Error(`one record should be claimable; ${claimed.length} were`)
  return only
}

export function idsOf(claimed: readonly { readonly message: Message }[]): (string | undefined)[] {
  return claimed.map(({ message }) => message.id)
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

/** Commits these and parks them. Gives their store ids, in order. */
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
