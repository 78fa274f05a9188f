import { AckordError, exponentialBackoff, idle, type Logger, outside, type Runtime, toError } from '@ackord/core'

export interface RunnerHealth {
  readonly state: 'idle' | 'running' | 'stopping'
  /** Whether the last round succeeded. */
  readonly store: 'up' | 'down'
  /** The last error of a round, in this run. */
  readonly lastError: Error | undefined
}

export interface RoundTerms {
  /** The name in log lines and errors. */
  readonly name: string
  /** Resolves to the milliseconds until the next round. Checks the signal between its calls, each of which has a deadline. */
  readonly round: (signal: AbortSignal) => Promise<number>
  readonly runtime: Runtime
  readonly logger: Logger
  /** Whether its timers keep the process alive. */
  readonly keepAlive: boolean
}

interface Run {
  readonly stopping: AbortController
  readonly ended: Promise<void>
}

const backoff = exponentialBackoff({ initial: 500, max: 30_000 })

/** Runs rounds until it is stopped. After a failed round the pause grows; the first failure and the recovery are logged. */
export class RoundRunner {
  readonly #terms: RoundTerms
  #run: Run | undefined
  #failures = 0
  #lastError: Error | undefined

  constructor(terms: RoundTerms) {
    this.#terms = terms
  }

  /** Has no effect if it runs already. */
  start(wait = 0): void {
    if (this.#run?.stopping.signal.aborted === true) {
      throw new AckordError('ACKORD_ALREADY_STARTED', `The ${this.#terms.name} is stopping. Await stop() before you start it again.`)
    }
    if (this.#run !== undefined) return
    const stopping = new AbortController()
    this.#failures = 0
    this.#lastError = undefined
    this.#run = { stopping, ended: outside(() => this.#rounds(stopping.signal, wait)) }
  }

  /** Resolves when the current round has ended. Idempotent in every state. */
  async stop(): Promise<void> {
    const run = this.#run
    if (run === undefined) return
    run.stopping.abort(new AckordError('ACKORD_SHUTDOWN', `The ${this.#terms.name} was stopped.`))
    await run.ended
    if (this.#run === run) this.#run = undefined
  }

  health(): RunnerHealth {
    const run = this.#run
    return {
      state: run === undefined ? 'idle' : run.stopping.signal.aborted ? 'stopping' : 'running',
      store: this.#failures === 0 ? 'up' : 'down',
      lastError: this.#lastError,
    }
  }

  async #rounds(signal: AbortSignal, first: number): Promise<void> {
    const { runtime, keepAlive } = this.#terms
    for (let wait = first; await idle(runtime, wait, signal, { keepAlive }); ) wait = await this.#round(signal)
  }

  async #round(signal: AbortSignal): Promise<number> {
    const { name, round, runtime, logger } = this.#terms
    try {
      const wait = await round(signal)
      if (this.#failures > 0) logger.info({}, `The ${name} works again.`)
      this.#failures = 0
      return wait
    } catch (error) {
      this.#failures += 1
      this.#lastError = toError(error)
      if (this.#failures === 1) logger.warn({ err: error }, `The ${name} failed. It tries again.`)
      return backoff(this.#failures, runtime.random)
    }
  }
}
