import { AckordError, type Backoff, type Logger, type Runtime } from '@ackord/core'
import { FailurePause } from '@ackord/core/internal'
import type { RedisArgument } from '../../client/port.ts'
import { says } from '../../client/reply.ts'
import type { RedisInternals } from '../../transaction/redis.ts'
import type { StreamGroup } from '../group/stream-group.ts'
import type { HeldEntry } from './held-entries.ts'

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

/** What is told when it goes, and when it is back. */
interface HealthTexts {
  readonly lost: string
  readonly back: string
}

const reading: HealthTexts = {
  lost: 'The stream is not read: Redis cannot be reached, or refuses. It is tried again.',
  back: 'The stream is read again.',
}

/** Of those who read in order. What an instance has, it may still read meanwhile, each shard being on a node of its own. */
export const sharing: HealthTexts = {
  lost: 'The shards are not shared out: Redis cannot be reached, or refuses. It is tried again.',
  back: 'The shards are shared out again.',
}

/** Tells a stream that cannot be read at the moment from one that never will be; says so once when it goes and once when it is back. */
export class ShardHealth {
  readonly #stream: string
  readonly #ports: { readonly backoff: Backoff; readonly runtime: Runtime; readonly logger: Logger }
  readonly #texts: HealthTexts
  readonly #pause: FailurePause
  #isDown = false

  constructor(
    stream: string,
    ports: { readonly backoff: Backoff; readonly runtime: Runtime; readonly logger: Logger },
    texts: HealthTexts = reading,
  ) {
    this.#stream = stream
    this.#ports = ports
    this.#texts = texts
    this.#pause = new FailurePause(ports)
  }

  well(): void {
    if (this.#isDown) this.#ports.logger.info({ stream: this.#stream }, this.#texts.back)
    this.#isDown = false
    this.#pause.succeeded()
  }

  /** Waits before the next try. Throws at what will not heal. */
  async failed(error: unknown, signal: AbortSignal): Promise<void> {
    if (says(error, 'WRONGTYPE', 'NOPERM', 'NOAUTH', 'WRONGPASS')) throw unreadable(this.#stream, error)
    if (!this.#isDown) this.#ports.logger.warn({ err: error, stream: this.#stream }, this.#texts.lost)
    this.#isDown = true
    await this.#pause.failed(signal)
  }

  /** The group is gone, which is told elsewhere. Waits before it is made again. */
  async lostGroup(signal: AbortSignal): Promise<void> {
    await this.#pause.failed(signal)
  }
}

function unreadable(stream: string, cause: unknown): AckordError {
  const advice = says(cause, 'WRONGTYPE')
    ? 'the key, or one beside it, holds something else. Read another one, or remove what is there.'
    : 'the user is not allowed to. Give it the commands of streams, scripts, and the keys of that name.'
  return new AckordError('ACKORD_SOURCE_FAILED', `Stream '${stream}' cannot be read: ${advice}`, { cause })
}
