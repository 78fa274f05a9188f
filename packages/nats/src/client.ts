import type { BrokerAddress } from '@ackord/core'
import { parseAddress } from '@ackord/core/broker'
import { causesOf } from '@ackord/core/internal'
import type { MsgHdrs } from '@nats-io/transport-node'

/** The part that is used of a connection of `@nats-io/transport-node` 3. It is passed in. */
export interface NatsConnection {
  publish(subject: string, data: Uint8Array, options?: { reply?: string }): void
  request(subject: string, data: Uint8Array, options: { timeout: number; headers?: MsgHdrs }): Promise<NatsMessage>
  subscribe(subject: string, options: { callback: (error: Error | null, message: NatsMessage) => void }): NatsSubscription
  flush(): Promise<void>
  /** Reports lost and restored connections, among other events. */
  status(): AsyncIterable<{ readonly type: string }>
  isClosed(): boolean
  closed(): Promise<unknown>
  /** The server that it is connected to, as `host:port`. For telemetry. */
  getServer?(): string
  /** Set while it is connected. */
  readonly info?: { readonly max_payload: number } | undefined
}

/** The server that a connection is connected to, or was last. */
export class ServerAddress implements BrokerAddress {
  readonly system = 'nats'
  readonly #connection: NatsConnection

  constructor(connection: NatsConnection) {
    this.#connection = connection
  }

  get serverAddress(): string | undefined {
    return parseAddress(this.#connection.getServer?.()).serverAddress
  }

  get serverPort(): number | undefined {
    return parseAddress(this.#connection.getServer?.()).serverPort
  }
}

export interface NatsSubscription {
  /** Resolves when everything that the server had sent has been delivered. */
  drain(): Promise<void>
}

/** The part of the client's headers that is used. */
export interface NatsHeaders {
  readonly code: number
  readonly description: string
  get(name: string): string
  keys(): string[]
}

/** A message as the client delivers it. */
export interface NatsMessage {
  readonly subject: string
  readonly data: Uint8Array
  readonly headers?: NatsHeaders | undefined
  /** The subject for the verdict on a message of a stream. */
  readonly reply?: string | undefined
}

/** Whether the error, or one of its causes, has this name. Not `instanceof`: an application may have two copies of the client. */
function hasName(error: unknown, name: string): boolean {
  return [...causesOf(error)].some((cause) => cause instanceof Error && cause.name === name)
}

/** The subject has no subscriber: no stream has it, or JetStream is not available. */
export function isNoResponders(error: unknown): boolean {
  return hasName(error, 'NoResponders') || hasName(error, 'NoRespondersError')
}

export function isNotAllowed(error: unknown): boolean {
  return hasName(error, 'PermissionViolationError') || hasName(error, 'AuthorizationError')
}

/** The client checks the size itself. */
export function isTooLarge(error: unknown): boolean {
  return error instanceof Error && error.message.includes('max_payload')
}
