import { isAckordError } from '../errors.ts'
import { checkChoice } from '../options.ts'
import { guardLogger, type Logger } from '../ports/observability.ts'
import { type Runtime, systemRuntime } from '../ports/runtime.ts'
import type { Middleware } from './middleware.ts'

export interface LoggingOptions {
  /** The level of the line for a handled message. Default: 'debug'. */
  readonly level?: 'debug' | 'info' | undefined
  /** Default: `systemRuntime`. */
  readonly runtime?: Runtime | undefined
}

/** Logs one line per message: handled (`level`), aborted (warn), failed (error). Never its data. */
export function loggingMiddleware(given: Logger, options: LoggingOptions = {}): Middleware {
  const logger = guardLogger(given)
  const { level = 'debug', runtime = systemRuntime } = options
  checkChoice('level', level, ['debug', 'info'])

  return (next) =>
    async function logging(message, context) {
      const startedAt = runtime.monotonic()
      const fields = () => ({ type: message.type, id: message.id, duration: Math.round(runtime.monotonic() - startedAt) })
      try {
        const outputs = await next(message, context)
        logger[level]({ ...fields(), outputs: outputs.length }, 'A message was handled.')
        return outputs
      } catch (error) {
        const aborted = context.signal.aborted || isAckordError(error, 'ACKORD_SHUTDOWN')
        if (aborted) logger.warn({ ...fields(), outputs: 0, err: error }, 'Handling a message was aborted.')
        else logger.error({ ...fields(), outputs: 0, err: error }, 'A message failed.')
        throw error
      }
    }
}
