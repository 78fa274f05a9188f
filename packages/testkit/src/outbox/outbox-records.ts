import { type Attributes, Message } from '@ackord/core'
import type { Claim, ClaimedRecord, ClaimOptions, NewOutboxRecord, OutboxStore, Outcome } from '@ackord/outbox'
import type { OutboxWorld } from './outbox-world.ts'

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
