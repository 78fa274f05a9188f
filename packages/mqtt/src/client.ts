import type { BrokerAddress } from '@ackord/core'

/** The part of a client of `mqtt` 5 that is used. It is passed in; the package itself is not imported. */
export interface MqttClient {
  readonly options: MqttClientOptions
  readonly connected: boolean
  /** Whether `end()` was called. */
  readonly disconnecting: boolean
  /** The connection. A source writes its acknowledgements to it, because the client has no method for that. */
  readonly stream: { write(packet: Uint8Array): unknown }
  /** The broker's answer when it accepted the connection. Missing in older versions of the client. */
  readonly serverProperties?: MqttServerProperties | undefined
  /** Called with each message. A source replaces it: with an error, the client goes on and sends no acknowledgement. */
  handleMessage(packet: MqttPublish, callback: (error?: Error) => void): void
  publish(topic: string, payload: Buffer, options: MqttPublishOptions, callback: (error?: Error) => void): unknown
  subscribe(
    subscriptions: MqttSubscriptions,
    options: object,
    callback: (error: Error | null, granted?: readonly { readonly qos: number }[]) => void,
  ): unknown
  /** Forgets a message that is not confirmed, so that it is not sent again, and calls its callback with an error. */
  removeOutgoingMessage(messageId: number): unknown
  listenerCount(event: 'message'): number
  on(event: 'connect' | 'close' | 'end', listener: () => void): unknown
  on(event: 'error', listener: (error: Error) => void): unknown
  on(event: 'disconnect', listener: (packet: { readonly reasonCode?: number }) => void): unknown
  on(event: 'packetsend' | 'packetreceive', listener: (packet: MqttPacket) => void): unknown
}

/** The options of a client that say whether it can be used. */
export interface MqttClientOptions {
  readonly protocolVersion?: number | undefined
  readonly clean?: boolean | undefined
  readonly clientId?: string | undefined
  readonly reconnectPeriod?: number | undefined
  readonly reconnectOnConnackError?: boolean | undefined
  readonly host?: string | undefined
  readonly hostname?: string | undefined
  readonly port?: number | string | undefined
  readonly properties?:
    | {
        readonly sessionExpiryInterval?: number | undefined
        readonly receiveMaximum?: number | undefined
        readonly topicAliasMaximum?: number | undefined
      }
    | undefined
}

/** The limits of a broker. Missing limits have the defaults of MQTT. */
export interface MqttServerProperties {
  readonly receiveMaximum?: number | undefined
  readonly maximumPacketSize?: number | undefined
  readonly maximumQoS?: number | undefined
}

export interface MqttPublishOptions {
  readonly qos: 1 | 2
  readonly properties: MqttPublishProperties
}

/** The properties of a message that a publisher sets. */
export interface MqttPublishProperties {
  contentType?: string
  userProperties?: Record<string, string | string[]>
}

/** Topic filters with their options. `resubscribe` makes the client send a subscription that it knows already. */
export type MqttSubscriptions = Record<string, { qos: 1; rh: number }> & { resubscribe?: boolean }

/** A message as the client delivers it. */
export interface MqttPublish {
  readonly topic: string
  readonly payload: string | Buffer
  readonly qos: number
  /** Set if the broker has sent the message before. */
  readonly dup: boolean
  readonly retain: boolean
  readonly messageId?: number | undefined
  readonly properties?:
    | {
        readonly contentType?: string | undefined
        readonly userProperties?: Readonly<Record<string, string | string[]>> | undefined
        readonly correlationData?: Uint8Array | undefined
        /** The seconds that were left when the broker sent the message. */
        readonly messageExpiryInterval?: number | undefined
      }
    | undefined
}

/** The fields that are read of a packet of any kind. */
export interface MqttPacket {
  readonly cmd: string
  readonly messageId?: number | undefined
}

/** MQTT's reason codes that are handled. */
export const reasonCodes = {
  noMatchingSubscribers: 0x10,
  notAuthorized: 0x87,
  sessionTakenOver: 0x8e,
  topicFilterInvalid: 0x8f,
  topicNameInvalid: 0x90,
  packetTooLarge: 0x95,
  quotaExceeded: 0x97,
  payloadFormatInvalid: 0x99,
  qosNotSupported: 0x9b,
  sharedSubscriptionsNotSupported: 0x9e,
  wildcardSubscriptionsNotSupported: 0xa2,
} as const

/** The reason code of an error of the client: of a refused connection, message or subscription. `undefined` if the broker has not answered. */
export function reasonCode(error: unknown): number | undefined {
  if (!(error instanceof Error)) return undefined
  const { code, packet } = error as { readonly code?: unknown; readonly packet?: { readonly granted?: readonly unknown[] } }
  const granted = packet?.granted?.[0]
  if (typeof granted === 'number') return granted
  return typeof code === 'number' ? code : undefined
}

/** A field of a packet that not every kind of packet has. */
export function fieldOf(packet: object, name: string): unknown {
  return (packet as Readonly<Record<string, unknown>>)[name]
}

/** The server that a client is connected to, or was last. */
export class ServerAddress implements BrokerAddress {
  readonly system = 'mqtt'
  readonly #client: MqttClient

  constructor(client: MqttClient) {
    this.#client = client
  }

  get serverAddress(): string | undefined {
    const { hostname, host } = this.#client.options
    const address = hostname ?? host
    return address === '' ? undefined : address
  }

  get serverPort(): number | undefined {
    const port = Number(this.#client.options.port)
    return Number.isInteger(port) && port >= 1 && port <= 65_535 ? port : undefined
  }
}
