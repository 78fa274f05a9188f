import { AckordError, type Backoff, idle, type Logger, type Runtime } from '@ackord/core'
import { says } from './error-text.ts'

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
  #failures = 0

  constructor(
    stream: string,
    ports: { readonly backoff: Backoff; readonly runtime: Runtime; readonly logger: Logger },
    texts: HealthTexts = reading,
  ) {
    this.#stream = stream
    this.#ports = ports
    this.#texts = texts
  }

  well(): void {
    if (this.#failures > 0) this.#ports.logger.info({ stream: this.#stream }, this.#texts.back)
    this.#failures = 0
  }

  /** Waits before the next try. Throws at what will not heal. */
  async failed(error: unknown, signal: AbortSignal): Promise<void> {
    const { backoff, runtime, logger } = this.#ports
    if (says(error, 'WRONGTYPE', 'NOPERM', 'NOAUTH', 'WRONGPASS')) throw unreadable(this.#stream, error)
    if (this.#failures === 0) {
      logger.warn({ err: error, stream: this.#stream }, this.#texts.lost)
    }
    this.#failures += 1
    await idle(runtime, backoff(this.#failures, runtime.random), signal)
  }
}

function unreadable(stream: string, cause: unknown): AckordError {
  const advice = says(cause, 'WRONGTYPE')
    ? 'the key, or one beside it, holds something else. Read another one, or remove what is there.'
    : 'the user is not allowed to. Give it the commands of streams, scripts, and the keys of that name.'
  return new AckordError('ACKORD_SOURCE_FAILED', `Stream '${stream}' cannot be read: ${advice}`, { cause })
}
