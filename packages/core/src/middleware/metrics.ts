import type { Metrics } from '../ports/metrics.ts'
import { guardMetrics } from '../ports/observability.ts'
import { type Runtime, systemRuntime } from '../ports/runtime.ts'
import type { Middleware } from './middleware.ts'

export interface MetricsOptions {
  /** Default: `systemRuntime`. */
  readonly runtime?: Runtime | undefined
}

/**
 * Records `ackord.messages` and `ackord.duration` by type and outcome (`handled`, `failed`), `ackord.outputs` by the input's type,
 * and the level `ackord.in_flight`, one for all handlers that use this object.
 */
export function metricsMiddleware(metrics: Metrics, options: MetricsOptions = {}): Middleware {
  const { runtime = systemRuntime } = options
  const { count, observe, gauge } = guardMetrics(metrics)
  let inFlight = 0

  return (next) =>
    async function measure(message, context) {
      const type = message.type ?? 'none'
      const startedAt = runtime.monotonic()
      let outcome = 'failed'
      inFlight += 1
      gauge('ackord.in_flight', inFlight, {})
      try {
        const outputs = await next(message, context)
        outcome = 'handled'
        count('ackord.outputs', outputs.length, { type })
        return outputs
      } finally {
        const duration = runtime.monotonic() - startedAt
        inFlight -= 1
        gauge('ackord.in_flight', inFlight, {})
        count('ackord.messages', 1, { type, outcome })
        observe('ackord.duration', duration, { type, outcome })
      }
    }
}
