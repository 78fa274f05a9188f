import { AckordError, type Logger, systemRuntime } from '@ackord/core'
import { checkFunction, PartPorts } from '@ackord/core/internal'
import type { AmqpConnection, AmqpConnectionEvent, AmqpContext } from './client.ts'
import { type ConditionError, toConditionError } from './conditions.ts'

interface Watch {
  readonly ports: PartPorts
  /** Called once, when the connection is lost. */
  readonly onLost: Set<(error: ConditionError) => void>
  /** Called once, when the connection is open, or will never be. */
  readonly onChange: Set<() => void>
  /** Why rhea does not connect again. */
  gaveUp: ConditionError | undefined
  lastError: ConditionError | undefined
}

// Milliseconds within which rhea begins to connect again, if it does.
const reopeningTime = 1000

const watches = new WeakMap<AmqpConnection, Watch>()

/**
 * Checks the connection, and follows its state. All sources and publishers of the connection share the listeners. Returns the logger of the part that uses the
 * connection: the given one, or that of the connection.
 */
export function watchConnection(connection: AmqpConnection, logger: Logger | undefined): Logger {
  checkFunction('connection.create_session', connection?.create_session)
  checkFunction('connection.on', connection.on)
  checkFunction('connection.container.message.encode', connection.container?.message?.encode)
  const { ports } = watchOf(connection)
  ports.inheritPorts({ logger })
  return logger ?? ports.logger
}

/** Calls `onLost` when the connection is lost, and never after the returned function was called. */
export function whenLost(connection: AmqpConnection, onLost: (error: ConditionError) => void): () => void {
  const watch = watchOf(connection)
  watch.onLost.add(onLost)
  return () => watch.onLost.delete(onLost)
}

/** Resolves when the connection is open. Rejects when it will never be, and with the reason of the signal. */
export async function whenOpen(connection: AmqpConnection, signal: AbortSignal): Promise<void> {
  const watch = watchOf(connection)
  while (!connection.is_open()) {
    signal.throwIfAborted()
    if (watch.gaveUp !== undefined) throw overError(watch.gaveUp)
    await new Promise<void>((resolve) => {
      const done = () => {
        watch.onChange.delete(done)
        signal.removeEventListener('abort', done)
        resolve()
      }
      watch.onChange.add(done)
      signal.addEventListener('abort', done)
    })
  }
}

/** The last error of the connection, to explain why it is not open. */
export function lastErrorOf(connection: AmqpConnection): ConditionError | undefined {
  return watchOf(connection).lastError
}

const over = new WeakSet<object>()

function overError(cause: ConditionError): AckordError {
  const text = `The connection is closed and will not be restored: ${cause.message}`
  const error = new AckordError('ACKORD_SOURCE_FAILED', text, { cause })
  over.add(error)
  return error
}

/** Whether an error means that the connection is closed for good. */
export function isOver(error: unknown): boolean {
  return typeof error === 'object' && error !== null && over.has(error)
}

function watchOf(connection: AmqpConnection): Watch {
  return watches.get(connection) ?? startWatch(connection)
}

function startWatch(connection: AmqpConnection): Watch {
  const watch: Watch = { ports: new PartPorts(), onLost: new Set(), onChange: new Set(), gaveUp: undefined, lastError: undefined }
  watches.set(connection, watch)
  const fail = (error: ConditionError) => {
    watch.lastError = error
    for (const listener of [...watch.onLost]) listener(error)
    watch.onLost.clear()
  }
  const change = () => {
    for (const listener of [...watch.onChange]) listener()
  }

  listen(connection, 'connection_open', () => {
    watch.gaveUp = undefined
    watch.lastError = undefined
    change()
  })
  listen(connection, 'disconnected', ({ error, reconnecting }) => {
    const reason = toConditionError(error ?? watch.lastError, 'the connection was lost')
    fail(reason)
    watch.gaveUp = reconnecting === true ? undefined : reason
    change()
  })
  // Without a listener for errors, rhea would end the process.
  listen(connection, 'connection_error', ({ error }) => {
    const reason = toConditionError(error, 'the broker closed the connection')
    watch.lastError = reason
    watch.ports.logger.warn({ err: reason }, 'The AMQP broker closed the connection with an error, or refused the login.')
  })
  listen(connection, 'connection_close', ({ error }) => {
    const reason = toConditionError(error, 'the connection was closed')
    fail(reason)
    // After most errors rhea leaves the connection closed, without a further event. After others, such as a shutdown of the broker, it connects again.
    const decide = () => {
      if (connection.is_closed()) watch.gaveUp = reason
      change()
    }
    systemRuntime.setTimeout(decide, reopeningTime, { keepAlive: false })
  })
  // A frame that rhea cannot read or write. It ends the socket, and `disconnected` follows.
  for (const event of ['protocol_error', 'error'] as const)
    listen(connection, event, (error) => {
      watch.lastError = toConditionError(error, 'rhea could not read or write a frame')
      watch.ports.logger.warn({ err: watch.lastError }, 'The connection to the AMQP broker failed.')
    })
  return watch
}

/** rhea passes an event on to the container only if the connection has no listener: one of ours must not keep it from the listeners of the application. */
function listen(connection: AmqpConnection, event: AmqpConnectionEvent, listener: (context: AmqpContext) => void): void {
  connection.on(event, (context) => {
    listener(context)
    if (event !== 'error' && connection.listenerCount(event) === 1) connection.container.emit(event, context)
  })
}
