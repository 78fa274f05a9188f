import { fieldOf, type MqttClient, type MqttPacket, reasonCodes } from '../client.ts'
import type { ConnectionWatch } from '../connection-watch.ts'
import type { Envelope } from './write-message.ts'

/** The outcome of a message that was sent. */
export type Outcome =
  | { readonly kind: 'confirmed' }
  /** The broker has confirmed the message, and says that no subscription matches its topic. */
  | { readonly kind: 'noSubscribers' }
  /** Refused by the broker, with a reason code; or nothing is known, because the connection was lost. */
  | { readonly kind: 'failed'; readonly error: unknown }
  /** The connection was lost before the message was sent. */
  | { readonly kind: 'unsent' }

/** A message to be sent. */
export interface Sending {
  readonly envelope: Envelope
  readonly qos: 1 | 2
  /** Aborted if the message need not be sent any more. */
  readonly signal: AbortSignal
  /** Called once, unless the signal is aborted before the message is sent. */
  readonly onOutcome: (outcome: Outcome) => void
}

interface InFlight extends Sending {
  messageId: number | undefined
  hasNoSubscribers: boolean
}

/** Applies until the broker's limit is known: few brokers accept fewer messages in flight. */
const unknownLimit = 10
/** The broker's default is 65,535, which would keep that many messages in memory. */
const maxInFlight = 1000

const windows = new WeakMap<MqttClient, PublishWindow>()

/**
 * The messages of a client that are sent and not confirmed; no more than the broker's receive maximum, which the client itself does not respect. One per client, shared by its publishers.
 *
 * When the connection is lost, the client keeps unconfirmed messages and sends them again when it has connected again. With QoS 1 this ends here: the message is removed from
 * the client and fails, and the caller decides whether to send it again. With QoS 2 the client must finish the exchange, because the broker takes a new message with
 * the same packet identifier for the old one and drops it; so the message stays in flight until it is confirmed. If the broker has lost the session, it has dropped the
 * messages whose exchange was not finished, and would confirm them nevertheless: they fail.
 */
export class PublishWindow {
  readonly #client: MqttClient
  readonly #watch: ConnectionWatch
  readonly #inFlight = new Set<InFlight>()
  // By the payload, of which each message has its own object: the client chooses the packet identifier when it sends.
  readonly #unsent = new Map<unknown, InFlight>()
  readonly #sent = new Map<number, InFlight>()
  readonly #waiting: Sending[] = []

  private constructor(client: MqttClient, watch: ConnectionWatch) {
    this.#client = client
    this.#watch = watch
    client.on('packetsend', (packet) => this.#onSend(packet))
    client.on('packetreceive', (packet) => this.#onReceive(packet))
    watch.onChange(() => {
      if (watch.isUp) this.#sendWaiting()
      else this.#onLost()
    })
  }

  static of(client: MqttClient, watch: ConnectionWatch): PublishWindow {
    const window = windows.get(client) ?? new PublishWindow(client, watch)
    windows.set(client, window)
    return window
  }

  /** Sends the message as soon as the broker accepts another one. The client must be connected. First come, first served. */
  send(sending: Sending): void {
    this.#waiting.push(sending)
    this.#sendWaiting()
  }

  get #isFull(): boolean {
    const { limits } = this.#watch
    const limit = limits === undefined ? unknownLimit : (limits.receiveMaximum ?? maxInFlight)
    return this.#inFlight.size >= Math.min(limit, maxInFlight)
  }

  #sendWaiting(): void {
    while (this.#waiting.length > 0 && this.#watch.isUp && !this.#isFull) {
      const sending = this.#waiting.shift()
      if (sending !== undefined && !sending.signal.aborted) this.#publish({ ...sending, messageId: undefined, hasNoSubscribers: false })
    }
  }

  #publish(entry: InFlight): void {
    const { topic, payload, properties } = entry.envelope
    this.#inFlight.add(entry)
    this.#unsent.set(payload, entry)
    try {
      this.#client.publish(topic, payload, { qos: entry.qos, properties }, (error) => {
        if (error) this.#end(entry, { kind: 'failed', error })
        else this.#end(entry, { kind: entry.hasNoSubscribers ? 'noSubscribers' : 'confirmed' })
      })
    } catch (error) {
      this.#end(entry, { kind: 'failed', error })
    }
  }

  #onSend(packet: MqttPacket): void {
    if (packet.cmd !== 'publish' || packet.messageId === undefined) return
    const payload = fieldOf(packet, 'payload')
    const entry = this.#unsent.get(payload)
    if (entry === undefined) return
    this.#unsent.delete(payload)
    entry.messageId = packet.messageId
    this.#sent.set(packet.messageId, entry)
  }

  #onReceive({ cmd, messageId, ...packet }: MqttPacket): void {
    // Before the client sends unfinished messages again.
    if (cmd === 'connack' && fieldOf(packet, 'sessionPresent') !== true) this.#fail([...this.#inFlight])
    if (cmd !== 'puback' && cmd !== 'pubrec' && cmd !== 'pubcomp') return
    const entry = messageId === undefined ? undefined : this.#sent.get(messageId)
    if (entry !== undefined && fieldOf(packet, 'reasonCode') === reasonCodes.noMatchingSubscribers) entry.hasNoSubscribers = true
  }

  #onLost(): void {
    const isOver = this.#watch.over !== undefined
    for (const { onOutcome } of this.#waiting.splice(0)) onOutcome({ kind: 'unsent' })
    this.#fail([...this.#inFlight].filter(({ qos }) => qos === 1 || isOver))
  }

  #fail(entries: readonly InFlight[]): void {
    for (const entry of entries) {
      if (entry.messageId !== undefined) this.#client.removeOutgoingMessage(entry.messageId)
      // If the client does not have the message any more, it does not call back.
      this.#end(entry, { kind: 'failed', error: undefined })
    }
  }

  #end(entry: InFlight, outcome: Outcome): void {
    if (!this.#inFlight.delete(entry)) return
    this.#unsent.delete(entry.envelope.payload)
    if (entry.messageId !== undefined) this.#sent.delete(entry.messageId)
    entry.onOutcome(outcome)
    this.#sendWaiting()
  }
}
