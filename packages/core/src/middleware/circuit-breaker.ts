import { CircuitBreaker, type CircuitBreakerOptions } from '../circuit-breaker.ts'
import { AckordError, isAckordError } from '../errors.ts'
import { isRetryable } from '../failures.ts'
import type { Middleware } from '../process.ts'
import { nameOf } from '../stages.ts'

/** The message was not handled, because those before it failed. */
export class CircuitOpenError extends AckordError {
  static {
    this.prototype.name = 'CircuitOpenError'
  }

  /** Milliseconds before it is worth trying again. */
  readonly retryAfter: number

  constructor(message: string, retryAfter: number) {
    super('ACKORD_CIRCUIT_OPEN', message)
    this.retryAfter = retryAfter
  }
}

/**
 * Stops handling for a while after several failures in a row; see {@link CircuitBreaker}. Failures that are the message's own fault
 * and a shutdown say nothing of what the handler depends on, and do not count. One object is one circuit, however many handlers use it.
 */
export function circuitBreakerMiddleware(options: CircuitBreakerOptions = {}): Middleware {
  const breaker = new CircuitBreaker(options)

  return (next) =>
    async function circuitBreaker(message, context) {
      if (!breaker.allow()) {
        const { retryAfter } = breaker
        const text = `Did not handle ${nameOf(message)}: the circuit is open. Try again in ${retryAfter} ms.`
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
    }
}
