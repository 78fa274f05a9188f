import type { RabbitmqMessage, RabbitmqProperties } from '../client.ts'
import { retryExchange } from '../topology/retry-topology.ts'
import { headerOf } from './read-message.ts'

const deliveriesHeader = 'x-ackord-deliveries'
const exchangeHeader = 'x-ackord-exchange'
const routingKeyHeader = 'x-ackord-routing-key'
const userHeader = 'x-ackord-user-id'

/** Written by RabbitMQ or by this package at each delivery; `CC` and `BCC` would make RabbitMQ send copies to other queues. */
const ownHeaders: ReadonlySet<string> = new Set([
  deliveriesHeader,
  exchangeHeader,
  routingKeyHeader,
  userHeader,
  'x-ackord-key',
  'x-delivery-count',
  'x-acquired-count',
  'x-death',
  'CC',
  'BCC',
])

/** Whether the message came back from a retry queue. RabbitMQ sets the exchange: a sender could forge it only with the permission to write to that exchange. */
function isReturned({ fields }: RabbitmqMessage, queue: string): boolean {
  return fields.exchange === retryExchange(queue)
}

/** How often the message was delivered before it waited in a retry queue. A count that came through another exchange is ignored. */
export function carriedDeliveries(native: RabbitmqMessage, queue: string): number {
  if (!isReturned(native, queue)) return 0
  const count = headerOf(native.properties.headers, deliveriesHeader)
  return typeof count === 'number' && Number.isSafeInteger(count) && count > 0 ? count : 0
}

/** The message as it was delivered first: with the exchange and the routing key that it was published to, and the user who published it. */
export function restoreFields(native: RabbitmqMessage, queue: string): RabbitmqMessage {
  if (!isReturned(native, queue)) return native
  const { headers } = native.properties
  const [exchange, routingKey] = [headerOf(headers, exchangeHeader), headerOf(headers, routingKeyHeader)]
  if (typeof exchange !== 'string' || typeof routingKey !== 'string') return native
  const properties = { ...native.properties, userId: headerOf(headers, userHeader) }
  return { ...native, fields: { ...native.fields, exchange, routingKey }, properties }
}

/** The properties of the copy in a retry queue, which has the same content, id and headers. */
export interface RetryProperties extends RabbitmqProperties {
  readonly expiration: string
}

/** `undefined` if the message cannot be republished: it has a time to live of its own, which would start again. */
export function retryProperties(native: RabbitmqMessage, queue: string, delay: number, deliveries: number): RetryProperties | undefined {
  // RabbitMQ refuses a user id other than the publisher's.
  const { headers = {}, expiration, userId: _userId, clusterId: _clusterId, deliveryMode: _mode, ...properties } = native.properties
  if (expiration !== undefined) return undefined
  const { fields, properties: before } = restoreFields(native, queue)
  const user = before.userId === undefined ? [] : [[userHeader, before.userId] as const]
  const kept = Object.entries(headers).filter(([name]) => !ownHeaders.has(name) && !/^x-(first|last)-death-/.test(name))
  return {
    // amqplib has read them from a message, so they are valid.
    ...(properties as Omit<RabbitmqProperties, 'headers'>),
    headers: Object.fromEntries([
      ...kept,
      [deliveriesHeader, deliveries],
      [exchangeHeader, fields.exchange],
      [routingKeyHeader, fields.routingKey],
      ...user,
    ]),
    expiration: String(Math.ceil(delay)),
  }
}
