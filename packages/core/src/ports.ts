import { describeValue, InvalidOptionError } from './errors.ts'
import type { Logger } from './logger.ts'
import type { Metrics } from './metrics.ts'

const loggerMethods = ['debug', 'info', 'warn', 'error'] as const
const metricsMethods = ['count', 'observe', 'gauge'] as const

/** Checks the port, and wraps it so that a log line that cannot be written never decides what becomes of a message. */
export function guardLogger(logger: Logger): Logger {
  if (guarded.has(logger)) return logger
  checkMethods('logger', logger, loggerMethods)
  const guard = (method: (typeof loggerMethods)[number]) => (fields: object, text: string) => quietly(() => logger[method](fields, text))
  const wrapped: Logger = { debug: guard('debug'), info: guard('info'), warn: guard('warn'), error: guard('error') }
  guarded.add(wrapped)
  return wrapped
}

/** The same for metrics. */
export function guardMetrics(metrics: Metrics): Metrics {
  checkMethods('metrics', metrics, metricsMethods)
  return {
    count: (name, amount, labels) => quietly(() => metrics.count(name, amount, labels)),
    observe: (name, value, labels) => quietly(() => metrics.observe(name, value, labels)),
    gauge: (name, value, labels) => quietly(() => metrics.gauge(name, value, labels)),
  }
}

// What passes through several hands (broker, receiver) is wrapped once.
const guarded = new WeakSet<Logger>()

function checkMethods(option: string, port: object, methods: readonly string[]): void {
  const missing = methods.filter((method) => typeof (port as Record<string, unknown> | null)?.[method] !== 'function')
  if (missing.length === 0) return
  throw new InvalidOptionError(option, `must have the methods ${methods.join(', ')}; ${describeValue(port)} lacks ${missing.join(', ')}.`)
}

function quietly(call: () => void): void {
  try {
    call()
  } catch {
    // There is nowhere left to tell it.
  }
}
