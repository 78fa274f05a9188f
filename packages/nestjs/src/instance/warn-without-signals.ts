import type { EventEmitter } from 'node:events'
import type { Logger, Runtime, Timer } from '@ackord/core'

export interface SignalWarningOptions {
  readonly logger: Logger
  readonly runtime: Runtime
  /** Default: the process. */
  readonly signals?: Pick<EventEmitter, 'listenerCount'> | undefined
}

/** An application that is created by `createApplicationContext()` enables its hooks after it has started. */
const patience = 1000

/** Warns if, shortly after the start, nothing in the process listens to the signals that end it: handlers would be interrupted instead of finished. */
export function warnWithoutSignals({ logger, runtime, signals = ownProcess() }: SignalWarningOptions): Timer {
  const check = () => {
    if (signals.listenerCount('SIGTERM') + signals.listenerCount('SIGINT') > 0) return
    logger.warn(
      {},
      'Call app.enableShutdownHooks(): without it a signal ends the process in the middle of handlers. Their messages are redelivered.',
    )
  }
  return runtime.setTimeout(check, patience, { keepAlive: false })
}

function ownProcess(): Pick<EventEmitter, 'listenerCount'> {
  // biome-ignore lint/style/noRestrictedGlobals: it only looks whether the application listens to signals.
  return process
}
