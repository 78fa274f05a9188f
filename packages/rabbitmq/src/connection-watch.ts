import type { Logger } from '@ackord/core'
import { checkFunction } from '@ackord/core/internal'
import type { RabbitmqConnection } from './client.ts'

interface Watch {
  /** Why amqplib has stopped reconnecting. */
  gaveUp: Error | undefined
}

const watches = new WeakMap<RabbitmqConnection, Watch>()

/** Checks the connection, and logs its failures: without a listener, an error of amqplib would end the process. */
export function watchConnection(connection: RabbitmqConnection, logger: Logger, name = 'connection'): void {
  checkFunction(`${name}.createChannel`, connection?.createChannel)
  checkFunction(`${name}.createConfirmChannel`, connection.createConfirmChannel)
  checkFunction(`${name}.on`, connection.on)
  if (watches.has(connection)) return
  const watch: Watch = { gaveUp: undefined }
  watches.set(connection, watch)
  connection.on('error', (error) => logger.warn({ err: error }, 'The connection to RabbitMQ failed.'))
  connection.on('reconnect-failed', (error: Error) => {
    watch.gaveUp = error
  })
}

/** Whether no channel can ever be opened on the connection again. `error` is the error of the last attempt. */
export function isOver(connection: RabbitmqConnection, error: unknown): boolean {
  if (watches.get(connection)?.gaveUp !== undefined) return true
  if (!(error instanceof Error)) return false
  // The only signs that amqplib gives: the first after close() of a connection that recovers, the second for a connection that does not recover.
  return typeof connection.waitForConnect === 'function' ? error.message === 'Connection closed' : error.name === 'IllegalOperationError'
}
