import { InvalidOptionError } from '../errors.ts'
import { checkDuration, checkFraction } from '../options.ts'
import { idle, type Runtime } from '../ports/runtime.ts'

/**
 * Returns the milliseconds to wait before the next try. `attempt` is 1 after the first failure; `random` returns numbers from 0 to 1. Pure, so that
 * stores and simulations can use it.
 */
export type Backoff = (attempt: number, random: () => number) => number

/** The same delay each time, ± `jitter` of it. Default: 1,000 ms ± 20 %. */
export function constantBackoff(delay = 1000, options: { readonly jitter?: number | undefined } = {}): Backoff {
  const { jitter = 0.2 } = options
  checkDuration('delay', delay)
  checkFraction('jitter', jitter)
  return (_attempt, random) => spread(delay, jitter, random)
}

export interface ExponentialBackoffOptions {
  /** Milliseconds after the first failure. Default: 1,000. */
  readonly initial?: number | undefined
  /** The factor by which the delay grows with each further failure, 1 or more. Default: 2. */
  readonly factor?: number | undefined
  /** The longest delay in milliseconds, before jitter. Default: 60,000. */
  readonly max?: number | undefined
  /** The share of the delay by which it varies, from 0 to 1. Default: 0.2. */
  readonly jitter?: number | undefined
}

export function exponentialBackoff(options: ExponentialBackoffOptions = {}): Backoff {
  const { initial = 1000, factor = 2, max = 60_000, jitter = 0.2 } = options
  checkDuration('initial', initial)
  checkDuration('max', max)
  checkFraction('jitter', jitter)
  if (!(factor >= 1 && Number.isFinite(factor))) throw new InvalidOptionError('factor', `must be a number, 1 or more; it is ${factor}.`)
  return (attempt, random) => {
    // At attempt 2000 the power is Infinity, and 0 × Infinity is NaN: the cap is applied to a valid number only.
    const delay = initial === 0 ? 0 : Math.min(initial * factor ** Math.max(0, attempt - 1), max)
    return spread(delay, jitter, random)
  }
}

function spread(delay: number, jitter: number, random: () => number): number {
  return jitter === 0 ? delay : Math.round(delay * (1 + jitter * (2 * random() - 1)))
}

/** Milliseconds, from the second consecutive failure on. A user's back-off may return less: a loop that fails immediately would then use up a processor. */
const shortestPause = 10

/**
 * The pause of a loop after a failure. It grows with consecutive failures, and starts again after a success. Every loop that reads from a broker uses
 * it, so that none of them retries without a pause.
 */
export class FailurePause {
  readonly #backoff: Backoff
  readonly #runtime: Runtime
  #failures = 0

  constructor({ backoff, runtime }: { readonly backoff: Backoff; readonly runtime: Runtime }) {
    this.#backoff = backoff
    this.#runtime = runtime
  }

  /** Whether the last try failed. */
  get isFailing(): boolean {
    return this.#failures > 0
  }

  succeeded(): void {
    this.#failures = 0
  }

  /** Counts a failure and returns the milliseconds to wait. */
  next(): number {
    this.#failures += 1
    return Math.max(this.#failures === 1 ? 0 : shortestPause, this.#backoff(this.#failures, this.#runtime.random))
  }

  /** Counts a failure and waits, at most until the signal is aborted. */
  async failed(signal: AbortSignal): Promise<void> {
    await idle(this.#runtime, this.next(), signal)
  }
}
