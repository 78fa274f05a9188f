import { AckordError, type Backoff, type Logger, type Runtime } from '@ackord/core'
import { SourceHealth } from '@ackord/core/broker'
import type { RedisArgument } from '../../client/port.ts'
import { says } from '../../client/reply.ts'
import type { RedisInternals } from '../../transaction/redis-internals.ts'
import type { StreamEntry } from '../entries/stream-entry.ts'
import type { StreamGroup } from '../group/stream-group.ts'

/** A stream, as an iteration reads it. */
export interface Shard {
  /** Whether the entry can still be settled here. */
  holds(entry: HeldEntry): boolean
  ack(entry: HeldEntry): Promise<void>
  /** `counts`: whether the delivery counts. */
  nack(entry: HeldEntry, delay: number, counts: boolean): Promise<void>
  /** Adds a dead letter to its stream and acks the entry, in one step. If the server refuses it, the delivery is kept. */
  reject(entry: HeldEntry, letter: readonly RedisArgument[]): Promise<void>
}

/** One delivery of an entry, until it is settled or lost. */
export interface HeldEntry extends StreamEntry {
  readonly shard: Shard
  /** Including this one. */
  readonly deliveries: number
  /** Whether it was yielded, so that the receiver settles it. */
  yielded: boolean
  /** Why it cannot be settled here any more. */
  loss: Loss | undefined
}

export type Loss = 'taken' | 'disposed'

/** All streams of an iteration. */
export interface Reading {
  /** Reads until it is left. Rejects with errors that are permanent. */
  run(): Promise<void>
  /** Stops reading and releases entries that were not yielded. Idempotent. */
  leave(): Promise<void>
  /** Releases also yielded entries that are not settled. Idempotent. */
  dispose(): Promise<void>
  /** Resolves when it was left and all verdicts are answered. */
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
  /** The maximum number of unsettled entries. */
  readonly share: () => number
  /** Receives the entries that are ready to be yielded, in this order. */
  readonly offer: (entries: readonly HeldEntry[]) => void
}

/** Milliseconds after which a consumer without pending entries that received none is removed. */
export const deadAfter = 60_000

/** A pending entry without a body: another client trimmed too much. */
export function reportDeleted(logger: Logger, stream: string, id: string): void {
  const text =
    'A pending entry was deleted from its stream before it was handled: it is lost. Trim only acked entries, as trimStream() does.'
  logger.error({ stream, id }, text)
}

/** The log lines for the loss of a connection, and for its return. */
interface HealthTexts {
  readonly lost: string
  readonly restored: string
}

const reading: HealthTexts = {
  lost: 'The stream cannot be read: Redis cannot be reached, or refuses. The source tries again.',
  restored: 'The stream is read again.',
}

/** For instances that read in order. An instance may still read the shards that it has, because each may be on another node. */
export const sharing: HealthTexts = {
  lost: 'The shards cannot be assigned: Redis cannot be reached, or refuses. The source tries again.',
  restored: 'The shards are assigned again.',
}

/** Distinguishes temporary from permanent errors of a stream; logs once when it cannot be read and once when it can be again. */
export class ShardHealth {
  readonly #stream: string
  readonly #health: SourceHealth

  constructor(
    stream: string,
    ports: { readonly backoff: Backoff; readonly runtime: Runtime; readonly logger: Logger },
    texts: HealthTexts = reading,
  ) {
    this.#stream = stream
    this.#health = new SourceHealth({ ...ports, ...texts, fields: { stream } })
  }

  well(): void {
    this.#health.restored()
    this.#health.steady()
  }

  /** Waits before the next try. Throws permanent errors. */
  async failed(error: unknown, signal: AbortSignal): Promise<void> {
    if (says(error, 'WRONGTYPE', 'NOPERM', 'NOAUTH', 'WRONGPASS')) throw unreadable(this.#stream, error)
    await this.#health.failed(error, signal)
  }

  /** The group is lost, which is logged elsewhere. Waits before it is created again. */
  async lostGroup(signal: AbortSignal): Promise<void> {
    await this.#health.wait(signal)
  }
}

function unreadable(stream: string, cause: unknown): AckordError {
  const advice = says(cause, 'WRONGTYPE')
    ? 'the key, or one beside it, holds something else. Read another one, or remove what is there.'
    : 'the user is not allowed to. Give it the commands of streams, scripts, and the keys of that name.'
  return new AckordError('ACKORD_SOURCE_FAILED', `Stream '${stream}' cannot be read: ${advice}`, { cause })
}
