import type { Backoff, Logger } from '@ackord/core'
import type { RedisArgument } from '../port.ts'
import type { RedisInternals } from '../redis.ts'
import type { HeldEntry } from './held-entry.ts'
import type { StreamGroup } from './stream-group.ts'

/** What an iteration has of one stream. */
export interface Shard {
  /** Whether the entry can still be settled here. */
  holds(entry: HeldEntry): boolean
  ack(entry: HeldEntry): Promise<void>
  /** `counts`: whether this delivery was one. */
  nack(entry: HeldEntry, delay: number, counts: boolean): Promise<void>
  /** Puts a letter into the dead-letter stream and acks, in one step. If the server refuses it, the entry is still in hand. */
  reject(entry: HeldEntry, letter: readonly RedisArgument[]): Promise<void>
}

/** All that an iteration reads. */
export interface Reading {
  /** Reads until it is left. Rejects with what will not heal. */
  run(): Promise<void>
  /** Reads no more and gives back what was not yielded. Idempotent. */
  leave(): Promise<void>
  /** Gives back also what was yielded and is not settled. Idempotent. */
  dispose(): Promise<void>
  /** Resolves when it was left and nothing is left to be settled. */
  readonly finished: Promise<void>
}

export interface ShardSettings {
  readonly redis: RedisInternals
  readonly group: StreamGroup
  readonly from: '0' | '$'
  readonly block: number
  readonly claimIdle: number
  readonly claimInterval: number
  readonly backoff: Backoff
  readonly logger: Logger
  /** How many entries it may hold. */
  readonly share: () => number
  /** Takes what is ready to be handed out, in this order. */
  readonly offer: (entries: readonly HeldEntry[]) => void
}

/** Milliseconds after which a consumer that holds nothing, and was given nothing, is removed. */
export const deadAfter = 60_000

/** A pending entry without a body: somebody has trimmed too much. */
export function reportDeleted(logger: Logger, stream: string, id: string): void {
  const text =
    'A pending entry was deleted from its stream before it was handled: it is lost. Trim only what is acked, as trimStream() does.'
  logger.error({ stream, id }, text)
}
