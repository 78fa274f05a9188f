import type { RabbitmqMessage, RabbitmqProperties } from '../client.ts'
import { retryExchange } from '../topology/retry-topology.ts'
import { headerOf } from './read-message.ts'

const deliveriesHeader = 'x-ackord-deliveries'
const exchangeHeader = 'x-ackord-exchange'
const routingKeyHeader = 'x-ackord-routing-key'
const userHeader = 'x-ackord-user-id'

/** Written by RabbitMQ or by us at each delivery; `CC` and `BCC` would have RabbitMQ send copies to other queues. */
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

/** Whether the message came back from a retry queue. Its exchange is RabbitMQ's word: a sender needs the permission to write to that exchange to forge it. */
function isReturned({ fields }: RabbitmqMessage, queue: string): boolean {
  return fields.exchange === retryExchange(queue)
}

/** How often the message was delivered before it waited in a retry queue. A count of anybody else is not believed. */
export function carriedDeliveries(native: RabbitmqMessage, queue: string): number {
  if (!isReturned(native, queue)) return 0
  const count = headerOf(native.properties.headers, deliveriesHeader)
  return typeof count === 'number' && Number.isSafeInteger(count) && count > 0 ? count : 0
}

/** The message as it came first: with the exchange and the routing key that it was published to, and the user who did. */
export function restoreFields(native: RabbitmqMessage, queue: string): RabbitmqMessage {
  if (!isReturned(native, queue)) return native
  const { headers } = native.properties
  const [exchange, routingKey] = [headerOf(headers, exchangeHeader), headerOf(headers, routingKeyHeader)]
  if (typeof exchange !== 'string' || typeof routingKey !== 'string') return native
  const properties = { ...native.properties, userId: headerOf(headers, userHeader) }
  return { ...native, fields: { ...native.fields, exchange, routingKey }, properties }
}

/** What is published to a retry queue, with the same content, id and headers. */
export interface RetryProperties extends RabbitmqProperties {
  readonly expiration: string
}

/** `undefined` if the message cannot be republished as it is: it has a time to live of its own, which would begin anew. */
export function retryProperties(native: RabbitmqMessage, queue: string, delay: number, deliveries: number): RetryProperties | undefined {
  // RabbitMQ refuses a user id that is not the publisher's.
  const { headers = {}, expiration, userId: _userId, clusterId: _clusterId, deliveryMode: _mode, ...properties } = native.properties
  if (expiration !== undefined) return undefined
  const { fields, properties: before } = restoreFields(native, queue)
  const user = before.userId === undefined ? [] : [[userHeader, before.userId] as const]
  const kept = Object.entries(headers).filter(([name]) => !ownHeaders.has(name) && !/^x-(first|last)-death-/.test(name))
  return {
    // As amqplib has read them.
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
