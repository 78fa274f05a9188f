import type { BrokerAddress, Logger } from '@ackord/core'
import { checkFunction, PartPorts } from '@ackord/core/internal'
import { type RabbitmqConnection, serverOf } from './client.ts'

interface Watch {
  readonly ports: PartPorts
  /** Why amqplib has stopped reconnecting. */
  gaveUp: Error | undefined
  /** That of the channel opened last. */
  server: BrokerAddress
}

const watches = new WeakMap<RabbitmqConnection, Watch>()

/**
 * Checks the connection, and logs its failures: without a listener, an error of amqplib would end the process. All sources and publishers of the connection share the
 * listener. Returns the logger of the part that uses the connection: the given one, or that of the connection.
 */
export function watchConnection(connection: RabbitmqConnection, logger: Logger | undefined, name = 'connection'): Logger {
  checkFunction(`${name}.createChannel`, connection?.createChannel)
  checkFunction(`${name}.createConfirmChannel`, connection.createConfirmChannel)
  checkFunction(`${name}.on`, connection.on)
  const { ports } = watches.get(connection) ?? startWatch(connection)
  ports.inheritPorts({ logger })
  return logger ?? ports.logger
}

function startWatch(connection: RabbitmqConnection): Watch {
  const watch: Watch = { ports: new PartPorts(), gaveUp: undefined, server: {} }
  watches.set(connection, watch)
  connection.on('error', (error) => watch.ports.logger.warn({ err: error }, 'The connection to RabbitMQ failed.'))
  connection.on('reconnect-failed', (error: Error) => {
    watch.gaveUp = error
  })
  return watch
}

/** Called with each new channel: only its channels say which server a connection is connected to. */
export function recordServer(connection: RabbitmqConnection, channel: object): void {
  const watch = watches.get(connection)
  if (watch !== undefined) watch.server = serverOf(channel)
}

/** The server that a connection is connected to, or was last; unknown before the first channel. */
export function serverOfConnection(connection: RabbitmqConnection): BrokerAddress {
  return watches.get(connection)?.server ?? {}
}

/** Whether no channel can ever be opened on the connection again. `error` is the error of the last attempt. */
export function isOver(connection: RabbitmqConnection, error: unknown): boolean {
  if (watches.get(connection)?.gaveUp !== undefined) return true
  if (!(error instanceof Error)) return false
  // The only signs that amqplib gives: the first after close() of a connection that recovers, the second for a connection that does not recover.
  return typeof connection.waitForConnect === 'function' ? error.message === 'Connection closed' : error.name === 'IllegalOperationError'
}
