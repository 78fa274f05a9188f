import { inspect } from 'node:util'
import { describeValue, InvalidOptionError } from '../errors.ts'
import { escapeText } from '../escape-text.ts'
import { safeLabels, shareLabels } from './metric-labels.ts'
import type { DescribedMetrics } from './metric-table.ts'
import type { Metrics } from './metrics.ts'
import { redactFields, safeText, stackOf } from './redact.ts'

/** The interface that `console` and pino share: fields first, text second. Payloads never go into the fields. */
export interface Logger {
  // Errors are passed as `err`: pino serialises them there, and under any other name shows {}.
  debug(fields: object, text: string): void
  info(fields: object, text: string): void
  warn(fields: object, text: string): void
  error(fields: object, text: string): void
}

export const silentLogger: Logger = { debug() {}, info() {}, warn() {}, error() {} }

/**
 * `console` without its debug lines: the default of a service that configured no logger. Text and fields are one line, in which control characters
 * are escaped; only the frames of a stack follow on lines of their own, indented. So external data cannot imitate a log line.
 */
export const consoleLogger: Logger = {
  debug() {},
  // The text first: people read it.
  info: (fields, text) => console.info(formatLine(fields, text)),
  warn: (fields, text) => console.warn(formatLine(fields, text)),
  error: (fields, text) => console.error(formatLine(fields, text)),
}

function formatLine(fields: object, text: string): string {
  const { err, ...rest } = redactFields(fields) as { readonly err?: unknown }
  const shown = Object.keys(rest).length === 0 ? '' : ` ${escapeText(inspect(rest, oneLine), maxLineLength)}`
  return safeText(text) + shown + (err === undefined ? '' : `\n    ${formatError(err, 0)}`)
}

const oneLine = { breakLength: Infinity, compact: true, depth: 4, maxStringLength: 1000 } as const
const maxLineLength = 10_000

/** The error with its stack, its properties and its causes, every line of it indented. */
function formatError(error: unknown, depth: number): string {
  if (!(error instanceof Error)) return escapeText(inspect(error, oneLine), maxLineLength)
  const properties = Object.entries(error).filter(([, value]) => !(value instanceof Error))
  const shown = properties.length === 0 ? '' : ` ${escapeText(inspect(Object.fromEntries(properties), oneLine), maxLineLength)}`
  const causes = error instanceof AggregateError ? [...error.errors.slice(0, 10), error.cause] : [error.cause]
  const shownCauses = depth >= 5 ? [] : causes.filter((cause) => cause !== undefined)
  return stackOf(error, 'foreign') + shown + shownCauses.map((cause) => `\n    Caused by: ${formatError(cause, depth + 1)}`).join('')
}

const loggerMethods = ['debug', 'info', 'warn', 'error'] as const
const metricsMethods = ['count', 'observe', 'gauge'] as const

/**
 * Validates the port, and wraps it so that a failing log call never affects a message, and so that a line contains no secrets and no values of
 * drivers, whatever the logger does with its fields. Unless the logger shows debug lines, the stacks of errors have no frames of Ackord and Node, so that the
 * frames of the application are on top.
 */
export function guardLogger(logger: Logger): Logger {
  if (guarded.has(logger)) return logger
  checkMethods('logger', logger, loggerMethods)
  const guard = (method: (typeof loggerMethods)[number]) => (fields: object, text: string) =>
    quietly(() => logger[method](redactFields(fields, showsDebug(logger) ? 'all' : 'foreign'), safeText(text, maxTextLength)))
  return markGuarded({ debug: guard('debug'), info: guard('info'), warn: guard('warn'), error: guard('error') })
}

/** Marks a logger that passes everything on to guarded ones. */
export function markGuarded(logger: Logger): Logger {
  guarded.add(logger)
  return logger
}

/** Whether a logger such as pino shows debug lines at the moment. */
function showsDebug(logger: Logger & { readonly isLevelEnabled?: unknown; readonly level?: unknown }): boolean {
  if (typeof logger.isLevelEnabled === 'function') return logger.isLevelEnabled('debug') === true
  return logger.level === 'debug' || logger.level === 'trace'
}

// A text of Ackord, which may end with the message of an error.
const maxTextLength = 4000

/** The same for metrics; each label has a limited number of values, without secrets. The result only accepts names that the table of metrics describes. */
export function guardMetrics(metrics: Metrics): DescribedMetrics {
  checkMethods('metrics', metrics, metricsMethods)
  const safe = safeLabels(metrics)
  const wrapped: Metrics = {
    count: (name, amount, labels) => quietly(() => metrics.count(name, amount, safe(labels))),
    observe: (name, value, labels) => quietly(() => metrics.observe(name, value, safe(labels))),
    gauge: (name, value, labels) => quietly(() => metrics.gauge(name, value, safe(labels))),
  }
  shareLabels(metrics, wrapped)
  return wrapped
}

// A port that passes through several components (broker, receiver) is wrapped once.
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
    // There is nowhere left to report it.
  }
}
