import { withTimeLimit } from '../async/abort.ts'
import { AckordError } from '../errors.ts'
import type { RawMessage } from '../message/message.ts'
import { redactDestination } from '../ports/redact.ts'
import { idle, type Runtime } from '../ports/runtime.ts'
import { checkResultCount, type Publisher, type PublishResult } from './publisher.ts'

// What the replay of dead letters and that of published records have in common.

/** A batch is in memory, and is confirmed as a whole. */
export const maxReplayBatch = 100
/** Bytes. */
export const maxReplayBytes: number = 8 * 1024 * 1024

/** Keeps the messages of a replay to a rate. After a pause, as of a broker that does not answer, it does not catch up: the rate is an upper limit. */
export class ReplayPace {
  /** How many messages to publish at a time: with a rate, about a tenth of a second's. */
  readonly batchSize: number
  readonly #rate: number | undefined
  readonly #runtime: Runtime
  #next: number

  /** `rate`: messages per second. `undefined`: no limit. */
  constructor(rate: number | undefined, runtime: Runtime) {
    this.#rate = rate
    this.#runtime = runtime
    this.#next = runtime.monotonic()
    this.batchSize = rate === undefined ? maxReplayBatch : Math.max(1, Math.min(maxReplayBatch, Math.floor(rate / 10)))
  }

  /** Waits until `count` messages may be published, or the signal is aborted. */
  async turn(count: number, signal: AbortSignal): Promise<void> {
    if (this.#rate === undefined) return
    const now = this.#runtime.monotonic()
    if (this.#next > now) await idle(this.#runtime, this.#next - now, signal)
    this.#next = Math.max(now, this.#next) + (count * 1000) / this.#rate
  }
}

/** Publishes messages within a time limit. Never rejects: where nothing is known about any message, each has a result that says so. */
export async function publishInTime(
  publisher: Publisher,
  destination: string,
  messages: readonly RawMessage[],
  { timeout, runtime }: { readonly timeout: number; readonly runtime: Runtime },
): Promise<readonly PublishResult[]> {
  const late = () =>
    new AckordError('ACKORD_PUBLISH_FAILED', `'${redactDestination(destination)}' did not confirm within ${timeout / 1000} s.`)
  try {
    const results = await withTimeLimit(runtime, timeout, late, (signal) => publisher.publish(destination, messages, { signal }))
    checkResultCount(results, messages.length, destination)
    return results
  } catch (error) {
    return messages.map(() => ({ ok: false, error, scope: 'destination' }))
  }
}
