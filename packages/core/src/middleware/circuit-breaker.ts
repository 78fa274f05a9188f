import { AckordError, isAckordError } from '../errors.ts'
import { describeMessage } from '../message/marshal.ts'
import { isRetryable } from '../message/message.ts'
import { checkCount, checkDuration, checkFunction } from '../options.ts'
import type { Logger } from '../ports/observability.ts'
import { PartPorts, type SharedPorts } from '../ports/part-ports.ts'
import { type Runtime, systemRuntime } from '../ports/runtime.ts'
import { type Middleware, middleware } from './middleware.ts'

export type CircuitState = 'closed' | 'open' | 'halfOpen'

export interface CircuitBreakerOptions {
  /** The number of consecutive failures that open the circuit. Default: 5. */
  readonly failures?: number | undefined
  /** Milliseconds without any call before a trial. Default: 30,000. */
  readonly openFor?: number | undefined
  /** The number of trial calls; all must succeed. Default: 1. */
  readonly halfOpenTrials?: number | undefined
  /** Called with each state change. Errors that it throws are logged. Optional. */
  readonly onStateChange?: ((state: CircuitState, before: CircuitState) => void) | undefined
  /** Default: `systemRuntime`. */
  readonly runtime?: Runtime | undefined
  /** Default: that of the router, for the middleware; otherwise `consoleLogger`. */
  readonly logger?: Logger | undefined
}

/** While trials are in flight it is unknown when the circuit closes; callers retry after this long. */
const trialPause = 1000

/**
 * Stops calls to a failing dependency, so that it can recover.
 *
 *     closed   ─ `failures` in a row ─────────────────▶ open
 *     open     ─ allow(), once `openFor` has passed ──▶ halfOpen
 *     halfOpen ─ all of `halfOpenTrials` succeeded ───▶ closed
 *              ─ one failed ──────────────────────────▶ open
 *
 * Each `allow()` that returned `true` must be followed by one of `succeeded()`, `failed()` and `released()`; otherwise a trial never ends. A late
 * answer to a call from before the circuit opened is ignored while it is open, and counts like a trial while it is half open: it is information about
 * the same dependency. No timer runs.
 */
export class CircuitBreaker {
  readonly #failures: number
  readonly #openFor: number
  readonly #halfOpenTrials: number
  readonly #onStateChange: ((state: CircuitState, before: CircuitState) => void) | undefined
  readonly #runtime: Runtime
  readonly #ports: PartPorts
  #state: CircuitState = 'closed'
  #failed = 0
  #openedAt = 0
  #allowedTrials = 0
  #succeededTrials = 0

  constructor(options: CircuitBreakerOptions = {}) {
    const { failures = 5, openFor = 30_000, halfOpenTrials = 1, onStateChange } = options
    const { runtime = systemRuntime, logger } = options
    this.#failures = checkCount('failures', failures)
    this.#openFor = checkDuration('openFor', openFor, { min: 1 })
    this.#halfOpenTrials = checkCount('halfOpenTrials', halfOpenTrials)
    this.#onStateChange = onStateChange === undefined ? undefined : checkFunction('onStateChange', onStateChange)
    this.#runtime = runtime
    this.#ports = new PartPorts({ logger })
  }

  get state(): CircuitState {
    return this.#state
  }

  inheritPorts(ports: SharedPorts): void {
    this.#ports.inheritPorts(ports)
  }

  /** Milliseconds before another call is worthwhile; 0 if `allow()` would return `true`. */
  get retryAfter(): number {
    if (this.#state === 'closed') return 0
    if (this.#state === 'open') return this.#remaining()
    return this.#allowedTrials < this.#halfOpenTrials ? 0 : Math.min(trialPause, this.#openFor)
  }

  /** Whether a call may be made now. */
  allow(): boolean {
    if (this.#state === 'closed') return true
    if (this.#state === 'open') {
      if (this.#remaining() > 0) return false
      this.#change('halfOpen')
    }
    if (this.#allowedTrials >= this.#halfOpenTrials) return false
    this.#allowedTrials += 1
    return true
  }

  succeeded(): void {
    this.#failed = 0
    if (this.#state !== 'halfOpen') return
    this.#succeededTrials += 1
    if (this.#succeededTrials >= this.#halfOpenTrials) this.#change('closed')
  }

  failed(): void {
    if (this.#state === 'open') return
    this.#failed += 1
    if (this.#state === 'halfOpen' || this.#failed >= this.#failures) this.#change('open')
  }

  /** The call was not made, or its result says nothing about the dependency: the trial can be used again. */
  released(): void {
    if (this.#state === 'halfOpen') this.#allowedTrials = Math.max(0, this.#allowedTrials - 1)
  }

  #remaining(): number {
    return Math.max(0, this.#openedAt + this.#openFor - this.#runtime.monotonic())
  }

  #change(state: CircuitState): void {
    const before = this.#state
    this.#state = state
    this.#allowedTrials = 0
    this.#succeededTrials = 0
    if (state === 'open') this.#openedAt = this.#runtime.monotonic()
    try {
      this.#onStateChange?.(state, before)
    } catch (error) {
      this.#ports.logger.error({ err: error, state, before }, 'onStateChange failed.')
    }
  }
}

/** The message was not handled, because earlier ones failed. */
export class CircuitOpenError extends AckordError {
  static {
    this.prototype.name = 'CircuitOpenError'
  }

  /** Milliseconds before another try is worthwhile. */
  readonly retryAfter: number

  constructor(message: string, retryAfter: number) {
    super('ACKORD_CIRCUIT_OPEN', message)
    this.retryAfter = retryAfter
  }
}

/**
 * Stops handling for a while after several consecutive failures; see {@link CircuitBreaker}. Failures caused by the message itself and a shutdown say
 * nothing about the handler's dependencies, and do not count. One object is one circuit, however many handlers use it.
 */
export function circuitBreakerMiddleware(options: CircuitBreakerOptions = {}): Middleware {
  const breaker = new CircuitBreaker(options)

  return middleware(
    { inheritPorts: (ports) => breaker.inheritPorts(ports) },
    (next) =>
      async function circuitBreaker(message, context) {
        if (!breaker.allow()) {
          const { retryAfter } = breaker
          const text = `Did not handle ${describeMessage(message)}: the circuit is open. Try again in ${retryAfter} ms.`
          throw new CircuitOpenError(text, retryAfter)
        }
        try {
          const outputs = await next(message, context)
          breaker.succeeded()
          return outputs
        } catch (error) {
          if (isRetryable(error) && !isAckordError(context.signal.reason, 'ACKORD_SHUTDOWN')) breaker.failed()
          else breaker.released()
          throw error
        }
      },
  )
}
