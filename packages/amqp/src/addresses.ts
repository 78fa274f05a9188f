import type { AmqpConnection } from './client.ts'

/** The address of a queue of RabbitMQ 4. Names may have any character: they are percent-encoded. */
export function queueAddress(queue: string): string {
  return `/queues/${encodeURIComponent(queue)}`
}

/** The address of an exchange of RabbitMQ 4, with the routing key of the messages. For publishers only. */
export function exchangeAddress(exchange: string, routingKey?: string): string {
  const base = `/exchanges/${encodeURIComponent(exchange)}`
  return routingKey === undefined || routingKey === '' ? base : `${base}/${encodeURIComponent(routingKey)}`
}

/**
 * The address of a destination. RabbitMQ 4 has addresses such as `/queues/orders`, and a plain name is a queue; other brokers use the names of their queues and topics as
 * they are. Known once the broker has said what it is.
 */
export function addressOf(connection: AmqpConnection, name: string): string {
  return productOf(connection) === 'rabbitmq' && !name.startsWith('/') ? queueAddress(name) : name
}

type Product = 'rabbitmq' | 'activemq' | 'servicebus' | 'amqp'

/** The broker, as OpenTelemetry names it; `amqp` if it is not known. */
export function productOf(connection: AmqpConnection): Product {
  const product = String(connection.properties?.['product'] ?? '')
  if (/rabbitmq/i.test(product)) return 'rabbitmq'
  if (/activemq|artemis/i.test(product)) return 'activemq'
  return /\.servicebus\.(windows\.net|usgovcloudapi\.net|chinacloudapi\.cn|cloudapi\.de)$/i.test(hostOf(connection) ?? '')
    ? 'servicebus'
    : 'amqp'
}

interface ServerSocket {
  readonly remoteAddress?: string | undefined
  readonly remotePort?: number | undefined
  /** The host name that Node has looked up. Undocumented: without it, the address is used. */
  readonly _host?: string | null | undefined
}

/** The server that a connection is connected to, or was last. */
export function serverOf(connection: AmqpConnection): {
  readonly serverAddress?: string | undefined
  readonly serverPort?: number | undefined
} {
  const { socket } = connection as { readonly socket?: ServerSocket | undefined }
  return { serverAddress: hostOf(connection), serverPort: socket?.remotePort }
}

function hostOf(connection: AmqpConnection): string | undefined {
  const { socket } = connection as { readonly socket?: ServerSocket | undefined }
  return socket?._host ?? socket?.remoteAddress
}
