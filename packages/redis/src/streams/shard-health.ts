import { AckordError, type Backoff, idle, type Logger, type Runtime } from '@ackord/core'
import { says } from './error-text.ts'

/** Tells a stream that cannot be read at the moment from one that never will be; says so once when it goes and once when it is back. */
export class ShardHealth {
  readonly #stream: string
  readonly #ports: { readonly backoff: Backoff; readonly runtime: Runtime; readonly logger: Logger }
  #failures = 0

  constructor(stream: string, ports: { readonly backoff: Backoff; readonly runtime: Runtime; readonly logger: Logger }) {
    this.#stream = stream
    this.#ports = ports
  }

  well(): void {
    if (this.#failures > 0) this.#ports.logger.info({ stream: this.#stream }, 'The stream is read again.')
    this.#failures = 0
  }

  /** Waits before the next try. Throws at what will not heal. */
  async failed(error: unknown, signal: AbortSignal): Promise<void> {
    const { backoff, runtime, logger } = this.#ports
    if (says(error, 'WRONGTYPE', 'NOPERM', 'NOAUTH', 'WRONGPASS')) throw unreadable(this.#stream, error)
    if (this.#failures === 0) {
      logger.warn({ err: error, stream: this.#stream }, 'The stream is not read: Redis cannot be reached, or refuses. It is tried again.')
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
