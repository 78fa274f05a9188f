import { InvalidOptionError, type Logger, type Runtime } from '@ackord/core'
import { fieldOf, type MqttClient, type MqttPublish } from '../client.ts'
import { filtersOverlap, matchesFilter } from '../topic.ts'
import { type HeldMessage, HeldMessages } from './held-messages.ts'

/** An iteration that receives messages of a subscription. */
export interface Receiving {
  /** How many more messages it accepts. */
  readonly room: number
  accept(held: HeldMessage): void
}

interface SubscriptionSettings {
  readonly group: string
  readonly topic: string
  readonly runtime: Runtime
  readonly logger: Logger
  readonly sessionPresent: boolean | undefined
}

interface SubscriptionParts {
  readonly filter: string
  readonly topic: string
  readonly held: HeldMessages
  readonly runtime: Runtime
  readonly logger: Logger
}

const clients = new WeakMap<MqttClient, ClientSubscriptions>()

/**
 * The subscriptions of a client whose messages are acknowledged by sources. The client would acknowledge each message as soon as it arrives, or, if `handleMessage` waits, handle nothing
 * else meanwhile, not even the answers to its pings. So `handleMessage` is replaced: it reports an error to the client, which then sends no acknowledgement and goes on.
 */
class ClientSubscriptions {
  readonly held: HeldMessages
  readonly #client: MqttClient
  readonly #subscriptions = new Map<string, Subscription>()
  /** Whether the client connected, to a session that may have had messages, before this was installed. */
  readonly #isLate: boolean
  #hasDropped = false

  private constructor(client: MqttClient) {
    this.#client = client
    this.#isLate = client.connected
    this.held = new HeldMessages(client)
    const original = client.handleMessage
    client.handleMessage = (packet, callback) => {
      const subscription = this.#find(packet.topic)
      if (subscription !== undefined) return this.#receive(subscription, packet, callback)
      this.#checkHasListener(packet)
      original.call(client, packet, callback)
    }
    client.on('packetreceive', (packet) => {
      if (packet.cmd !== 'connack' || fieldOf(packet, 'reasonCode') !== 0) return
      this.held.connected({ sessionPresent: fieldOf(packet, 'sessionPresent') === true })
    })
    client.on('close', () => this.held.disconnected())
  }

  static of(client: MqttClient): ClientSubscriptions {
    const found = clients.get(client) ?? new ClientSubscriptions(client)
    clients.set(client, found)
    return found
  }

  subscription({ group, topic, runtime, logger, sessionPresent }: SubscriptionSettings): Subscription {
    const filter = `$share/${group}/${topic}`
    const known = this.#subscriptions.get(filter)
    if (known !== undefined) return known
    for (const other of this.#subscriptions.values()) {
      if (filtersOverlap(other.topic, topic)) throw overlapping(other.filter, filter)
    }
    if (this.#client.connected && (this.#isLate || sessionPresent !== false)) throw tooLate(filter)
    const subscription = new Subscription({ filter, topic, held: this.held, runtime, logger })
    this.#subscriptions.set(filter, subscription)
    return subscription
  }

  /** The client acknowledges messages that are not a source's. The application may have subscribed to them; otherwise, an earlier version of a source has. */
  #checkHasListener({ topic }: MqttPublish): void {
    if (this.#hasDropped || this.#client.listenerCount('message') > 0) return
    this.#hasDropped = true
    const [first] = this.#subscriptions.values()
    first?.logger.warn({ clientId: this.#client.options.clientId, topic }, notWanted)
  }

  #find(topic: string): Subscription | undefined {
    for (const subscription of this.#subscriptions.values()) if (matchesFilter(subscription.topic, topic)) return subscription
    return undefined
  }

  #receive(subscription: Subscription, packet: MqttPublish, callback: (error?: Error) => void): void {
    if (packet.qos === 2) {
      // The client cannot be kept from acknowledging it but by waiting. Sources subscribe with QoS 1, so that only an earlier subscription causes this.
      subscription.receive(packet, () => callback())
      return
    }
    subscription.receive(packet)
    if (packet.qos === 0) callback()
    else callback(new Error('The message is acknowledged by its source.'))
  }
}

/** One shared subscription of a client, with the messages that wait for an iteration. They stay here when an iteration is left: a broker accepts no message back. */
export class Subscription {
  readonly filter: string
  readonly topic: string
  readonly logger: Logger
  readonly #held: HeldMessages
  readonly #runtime: Runtime
  readonly #waiting: HeldMessage[] = []
  readonly #receivers = new Set<Receiving>()

  constructor({ filter, topic, held, runtime, logger }: SubscriptionParts) {
    this.filter = filter
    this.topic = topic
    this.logger = logger
    this.#held = held
    this.#runtime = runtime
  }

  /** The subscription of a client with this group and topic, which its sources share. */
  static of(client: MqttClient, settings: SubscriptionSettings): Subscription {
    return ClientSubscriptions.of(client).subscription(settings)
  }

  attach(receiver: Receiving): void {
    this.#receivers.add(receiver)
    this.distribute()
  }

  detach(receiver: Receiving): void {
    this.#receivers.delete(receiver)
  }

  receive(packet: MqttPublish, done?: () => void): void {
    const held = this.#held.add(packet, this.#runtime.now(), done)
    if (held === undefined) return
    this.#waiting.push(held)
    this.distribute()
  }

  settle(held: HeldMessage): void {
    held.holder = undefined
    this.#held.settle(held)
  }

  /** The message is handled again, by any iteration, after a delay in milliseconds. MQTT has neither nack nor delay, so it waits in this process. */
  putBack(held: HeldMessage, delay = 0): void {
    held.holder = undefined
    held.yielded = false
    if (delay === 0) this.#enqueue(held)
    else {
      held.delay = this.#runtime.setTimeout(
        () => {
          held.delay = undefined
          this.#enqueue(held)
        },
        delay,
        { keepAlive: false },
      )
    }
  }

  /** Passes waiting messages to the iterations that have room, to the one with the most room first. */
  distribute(): void {
    while (this.#waiting.length > 0) {
      const [receiver] = [...this.#receivers].filter(({ room }) => room > 0).sort((one, other) => other.room - one.room)
      if (receiver === undefined) return
      const held = this.#waiting.shift()
      if (held !== undefined) receiver.accept(held)
    }
  }

  /** In the order of arrival. */
  #enqueue(held: HeldMessage): void {
    const index = this.#waiting.findIndex(({ sequence }) => sequence > held.sequence)
    this.#waiting.splice(index < 0 ? this.#waiting.length : index, 0, held)
    this.distribute()
  }
}

const notWanted =
  "A message of an MQTT session belongs to no source and was dropped. A session keeps its subscriptions: unsubscribe from a source's earlier topic or group, or change the client id. Further messages are dropped without a log entry."

function overlapping(one: string, other: string): InvalidOptionError {
  return new InvalidOptionError(
    'topic',
    `overlaps with that of another source of the client: a message of '${one}' could not be told from one of '${other}'. Use a client, with its own client id, for each of them.`,
  )
}

function tooLate(filter: string): InvalidOptionError {
  return new InvalidOptionError(
    'client',
    `is connected already, so it may have acknowledged messages of '${filter}' that waited in its session. Create the source before the client connects: directly after mqtt.connect(), not after connectAsync(); or with { manualConnect: true } and client.connect() afterwards.`,
  )
}
