import type { Metrics } from '../metrics.ts'
import type { Middleware } from '../process.ts'
import { type Runtime, systemRuntime } from '../runtime.ts'

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
  let inFlight = 0

  return (next) =>
    async function measure(message, context) {
      const type = message.type ?? 'none'
      const startedAt = runtime.now()
      let outcome = 'failed'
      inFlight += 1
      safely(() => metrics.gauge('ackord.in_flight', inFlight, {}))
      try {
        const outputs = await next(message, context)
        outcome = 'handled'
        safely(() => metrics.count('ackord.outputs', outputs.length, { type }))
        return outputs
      } finally {
        const duration = runtime.now() - startedAt
        inFlight -= 1
        safely(() => metrics.gauge('ackord.in_flight', inFlight, {}))
        safely(() => metrics.count('ackord.messages', 1, { type, outcome }))
        safely(() => metrics.observe('ackord.duration', duration, { type, outcome }))
      }
    }
}

/** A port should not throw; if one does, a lost number is better than a message that is handled again. */
function safely(record: () => void): void {
  try {
    record()
  } catch {}
}
