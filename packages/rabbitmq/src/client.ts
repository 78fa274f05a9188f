import type { BrokerAddress } from '@ackord/core'

/** The part of amqplib 2 that is used. Its objects are passed in; amqplib itself is not imported. */
export interface RabbitmqConnection {
  createChannel(): Promise<RabbitmqChannel>
  createConfirmChannel(): Promise<RabbitmqConfirmChannel>
  /** Only a connection that was opened with `{ recovery: … }` has this method. */
  waitForConnect?(): Promise<unknown>
  on(event: 'error' | 'reconnect-failed', listener: (error: Error) => void): unknown
}

export interface RabbitmqChannel {
  assertQueue(queue: string, options: { durable: boolean; arguments: Record<string, unknown> }): Promise<unknown>
  prefetch(count: number): Promise<unknown>
  consume(queue: string, onMessage: (message: RabbitmqMessage | null) => void, options: { consumerTag: string }): Promise<unknown>
  cancel(consumerTag: string): Promise<unknown>
  ack(message: RabbitmqMessage, allUpTo: boolean): void
  nack(message: RabbitmqMessage, allUpTo: boolean, requeue: boolean): void
  close(): Promise<void>
  on(event: 'error', listener: (error: Error) => void): unknown
  on(event: 'close', listener: () => void): unknown
}

export interface RabbitmqConfirmChannel {
  publish(
    exchange: string,
    routingKey: string,
    content: Buffer,
    options: RabbitmqProperties & { mandatory: boolean; persistent: boolean },
    onConfirm: (error: unknown) => void,
  ): boolean
  close(): Promise<void>
  on(event: 'error', listener: (error: Error) => void): unknown
  on(event: 'drain', listener: () => void): unknown
  on(event: 'return', listener: (message: Pick<RabbitmqMessage, 'properties'>) => void): unknown
  prependListener(event: 'close', listener: () => void): unknown
}

/** The properties that a publisher sets. Missing properties are not sent. */
export interface RabbitmqProperties {
  headers: Record<string, unknown>
  contentType?: string
  messageId?: string
  type?: string
  correlationId?: string
  timestamp?: number
}

/** A message as amqplib delivers it. */
export interface RabbitmqMessage {
  readonly content: Buffer
  readonly fields: {
    readonly deliveryTag: number
    readonly redelivered: boolean
    readonly exchange: string
    readonly routingKey: string
  }
  readonly properties: {
    readonly headers?: Readonly<Record<string, unknown>> | undefined
    readonly contentType?: unknown
    readonly messageId?: unknown
    readonly type?: unknown
    readonly appId?: unknown
    readonly correlationId?: unknown
    readonly timestamp?: unknown
    readonly expiration?: unknown
    readonly userId?: unknown
    readonly clusterId?: unknown
    readonly deliveryMode?: unknown
  }
}

/** AMQP's reply code; `undefined` if amqplib's error has none. */
export function replyCode(error: unknown): unknown {
  return error instanceof Error && 'code' in error ? error.code : undefined
}

export interface ServerVersion {
  readonly major: number
  readonly minor: number
}

interface ServerSocket {
  readonly remoteAddress?: string | undefined
  readonly remotePort?: number | undefined
  /** The host name that Node has looked up. Undocumented: without it, the address is used. */
  readonly _host?: string | null | undefined
}

/** The server that a channel was opened on. */
export function serverOf(channel: object): Pick<BrokerAddress, 'serverAddress' | 'serverPort'> {
  const { connection } = channel as { readonly connection?: { readonly stream?: ServerSocket } }
  const { _host, remoteAddress, remotePort } = connection?.stream ?? {}
  return { serverAddress: _host ?? remoteAddress, serverPort: remotePort }
}

export type CountHeader = 'x-acquired-count' | 'x-delivery-count'

/** The version of the server that a channel is connected to; zeros if it is unknown. */
export function serverVersion(channel: object): ServerVersion {
  // A channel of amqplib refers to its connection, also after that was opened again.
  const { connection } = channel as { readonly connection?: { readonly serverProperties?: { readonly version?: unknown } } }
  const [major = 0, minor = 0] = String(connection?.serverProperties?.version ?? '')
    .split('.')
    .map((part) => Number.parseInt(part, 10) || 0)
  return { major, minor }
}

/**
 * The header in which a quorum queue counts earlier deliveries. Only this one is written by the server: up to 4.2 an `x-acquired-count` is the sender's, and
 * from 4.3 on an `x-delivery-count` is, because 4.3 no longer counts nacks there.
 */
export function countHeader({ major, minor }: ServerVersion): CountHeader {
  return major > 4 || (major === 4 && minor >= 3) ? 'x-acquired-count' : 'x-delivery-count'
}
