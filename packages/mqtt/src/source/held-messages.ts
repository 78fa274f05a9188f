import type { Timer } from '@ackord/core'
import type { MqttClient, MqttPublish } from '../client.ts'

/** A message that the broker has delivered and that is not acknowledged. */
export interface HeldMessage {
  readonly packet: MqttPublish
  /** The instant at which it arrived, in milliseconds since 1970. */
  readonly arrivedAt: number
  /** The order of arrival in this process. */
  readonly sequence: number
  /** The number of times that it was passed to a handler, or, by the broker, to another process. */
  deliveries: number
  /** The iteration that it was passed to; `undefined` while it waits for one. */
  holder: object | undefined
  /** Whether it was passed to a handler, which settles it. */
  yielded: boolean
  /** Set while the delay of a nack is running. */
  delay: Timer | undefined
  /** Whether it was acked here. The ack is sent to the broker when it is the turn of the message. */
  settled: boolean
  /** Set while the broker waits for the acknowledgement of a message with QoS 2: the client sends it, and handles nothing else before. */
  done: (() => void) | undefined
}

/**
 * The unacknowledged messages of a client, and their acknowledgements. MQTT demands that these have the order in which the messages arrived on the connection: an ack
 * waits for those of earlier messages.
 *
 * Messages outlive a connection. When the client has connected again, and the broker still has the session, it sends them again with the same packet identifiers: such
 * a message is recognised, keeps its state, and is not delivered twice. If the broker has lost the session, it knows nothing of them; they are handled, and not acknowledged.
 */
export class HeldMessages {
  readonly #client: MqttClient
  readonly #byPacketId = new Map<number, HeldMessage>()
  /** Those that have arrived on the current connection, in this order. */
  #arrived: HeldMessage[] = []
  #isConnected = false
  #sequence = 0

  constructor(client: MqttClient) {
    this.#client = client
    this.#isConnected = client.connected
  }

  connected(options: { readonly sessionPresent: boolean }): void {
    this.#isConnected = true
    this.#arrived = []
    if (!options.sessionPresent) this.#byPacketId.clear()
  }

  disconnected(): void {
    this.#isConnected = false
    this.#arrived = []
  }

  /** Returns the message if it is new, and `undefined` if it is held already. */
  add(packet: MqttPublish, arrivedAt: number, done?: () => void): HeldMessage | undefined {
    const id = packet.qos > 0 ? packet.messageId : undefined
    // The broker marks what it sends again. Without the mark, the packet identifier is used for another message, which may have the same content.
    const known = id === undefined || !packet.dup ? undefined : this.#byPacketId.get(id)
    if (known !== undefined && isSame(known.packet, packet)) {
      if (!this.#arrived.includes(known)) this.#arrived.push(known)
      known.done = done
      this.#acknowledge()
      return undefined
    }
    const held: HeldMessage = {
      ...{ packet, arrivedAt, sequence: this.#sequence, deliveries: packet.dup ? 1 : 0, holder: undefined, yielded: false },
      ...{ delay: undefined, settled: false, done },
    }
    this.#sequence += 1
    if (id === undefined) return held
    this.#byPacketId.set(id, held)
    this.#arrived.push(held)
    return held
  }

  /** Acknowledges the message when it is its turn: at once, or when the earlier ones are settled, or when the broker has sent it again on a new connection. */
  settle(held: HeldMessage): void {
    held.settled = true
    this.#acknowledge()
  }

  #acknowledge(): void {
    while (this.#isConnected && this.#arrived[0]?.settled === true) {
      const held = this.#arrived.shift()
      const id = held?.packet.messageId
      if (held === undefined || id === undefined) continue
      if (this.#byPacketId.get(id) === held) this.#byPacketId.delete(id)
      if (held.done === undefined) this.#client.stream.write(puback(id))
      else held.done()
    }
  }
}

/** The packet that acknowledges a message with QoS 1. Its reason code is 0, which is not written. */
function puback(packetId: number): Uint8Array {
  return Uint8Array.of(0x40, 2, packetId >> 8, packetId & 0xff)
}

/** Whether two packets with the same identifier carry the same message. */
function isSame(one: MqttPublish, other: MqttPublish): boolean {
  const content = ({ topic, properties = {} }: MqttPublish) => JSON.stringify([topic, properties.contentType, properties.userProperties])
  return content(one) === content(other) && Buffer.from(one.payload).equals(Buffer.from(other.payload))
}
