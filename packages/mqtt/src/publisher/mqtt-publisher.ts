import {
  type Closable,
  InvalidOptionError,
  type Logger,
  type Publisher,
  type PublishFailure,
  type PublishResult,
  type RawMessage,
  type Runtime,
  systemRuntime,
} from '@ackord/core'
import { createPublisher, type Outgoing, type PublisherDriver, type SendOptions } from '@ackord/core/broker'
import { checkChoice, checkDuration, checkFunction, linkedController, PartPorts, rejectUnknownOptions } from '@ackord/core/internal'
import { type MqttClient, ServerAddress } from '../client.ts'
import { ConnectionWatch } from '../connection-watch.ts'
import { checkTopic } from '../topic.ts'
import {
  connectionLost,
  noSubscribers,
  notConnected,
  publishFailed,
  qosTooHigh,
  sessionResumed,
  tooLarge,
  type Unroutable,
} from './publish-failures.ts'
import { type Outcome, PublishWindow } from './publish-window.ts'
import { type Envelope, maxPacketSize, packetSize, writeMessage } from './write-message.ts'

export interface MqttPublisherOptions {
  /** The topic for a message to this destination. Default: the destination itself. */
  readonly topic?: ((destination: string, message: RawMessage) => string) | undefined
  /**
   * How a message is confirmed. `1`: a message whose confirmation was lost fails, and may be delivered twice when it is sent again. `2`: the client finishes the exchange
   * when it has connected again, so the broker does not deliver it twice; a call that is aborted meanwhile does not know the result. It requires a client with
   * `{ clean: false, properties: { sessionExpiryInterval } }`, and with a client id that is new in each process, as the client generates it. Default: 1.
   */
  readonly qos?: 1 | 2 | undefined
  /**
   * Whether a message to a topic without subscriptions is a failure. If not, the broker confirms and drops it: for events that need no receiver. Brokers need not say that there is
   * no subscription; Mosquitto says it with QoS 1 only. Default: true.
   */
  readonly mandatory?: boolean | undefined
  /**
   * The fault that is reported when a topic has no subscription. `destination`: a relay pauses the destination and counts no attempts. `record`: it tries the message again and parks it in
   * the end, and the others go on. Default: 'destination', and 'record' with a `topic` function, where one message with an unknown topic must not stop the rest.
   */
  readonly unroutable?: 'destination' | 'record' | undefined
  /** Whether attributes are user properties, or one JSON document with the data. Sources read both. Default: 'binary'. */
  readonly mode?: 'binary' | 'structured' | undefined
  /** Milliseconds that `publish()` waits for a connection that is being restored; then the destination is at fault. Default: 5,000. */
  readonly connectTimeout?: number | undefined
  readonly runtime?: Runtime | undefined
  /** Logs failures of the connection. Default: that of the relay or router that uses the publisher; until then the console, from `info` up. */
  readonly logger?: Logger | undefined
}

/**
 * Publishes with confirmation: a message that is `ok` was accepted by the broker, and matched a subscription as far as the broker says. The messages of a call are sent in their order, as many at a time
 * as the broker accepts, and confirmed one by one. Make the client with `connect(url, { protocolVersion: 5 })` of `mqtt`, and do not share it with a source.
 *
 * A confirmation does not promise that the broker delivers the message: Mosquitto drops messages for a session that has `max_queued_messages` waiting, and confirms them all the same.
 */
export function mqttPublisher(client: MqttClient, options: MqttPublisherOptions = {}): Publisher & Closable {
  const {
    topic = (destination) => destination,
    qos = 1,
    mandatory = true,
    unroutable = options.topic === undefined ? 'destination' : 'record',
    mode = 'binary',
    connectTimeout = 5000,
    runtime = systemRuntime,
    logger,
    ...unknown
  } = options
  rejectUnknownOptions('An MQTT publisher', unknown)
  checkFunction('topic', topic)
  if (qos !== 1 && qos !== 2) throw new InvalidOptionError('qos', 'must be 1 or 2: messages with QoS 0 are not confirmed.')
  if (typeof mandatory !== 'boolean') throw new InvalidOptionError('mandatory', 'must be true or false.')
  checkChoice('unroutable', unroutable, ['destination', 'record'])
  checkChoice('mode', mode, ['binary', 'structured'])
  checkDuration('connectTimeout', connectTimeout, { min: 1 })
  const driver = new MqttPublisherDriver(client, { topic, qos, mandatory, unroutable, mode, connectTimeout, runtime, logger })
  if (qos === 2) checkKeepsSession(client)
  return createPublisher(driver)
}

/** Without a session, the broker drops messages whose exchange with QoS 2 is not finished when the connection is lost. */
function checkKeepsSession({ options }: MqttClient): void {
  if (options.clean === false && (options.properties?.sessionExpiryInterval ?? 0) >= 1) return
  throw new InvalidOptionError(
    'client',
    'must keep its session for qos: 2, so that messages are finished after a lost connection. Connect with { clean: false, properties: { sessionExpiryInterval } }, in seconds, and without a client id, so that each process has its own.',
  )
}

interface PublisherSettings {
  readonly topic: (destination: string, message: RawMessage) => string
  readonly qos: 1 | 2
  readonly mandatory: boolean
  readonly unroutable: Unroutable
  readonly mode: 'binary' | 'structured'
  readonly connectTimeout: number
  readonly runtime: Runtime
  readonly logger: Logger | undefined
}

const ok: PublishResult = { ok: true }

class MqttPublisherDriver implements PublisherDriver<Envelope> {
  readonly broker = 'MQTT'
  readonly system = 'mqtt'
  readonly routeName = 'topic'
  readonly runtime: Runtime
  readonly inheritPorts: PartPorts['inheritPorts']
  readonly #address: ServerAddress
  readonly #watch: ConnectionWatch
  readonly #window: PublishWindow
  readonly #settings: PublisherSettings

  constructor(client: MqttClient, settings: PublisherSettings) {
    this.#settings = settings
    this.runtime = settings.runtime
    this.#address = new ServerAddress(client)
    this.#watch = ConnectionWatch.of(client, settings.logger)
    this.#window = PublishWindow.of(client, this.#watch)
    this.inheritPorts = new PartPorts({ logger: settings.logger ?? this.#watch.logger }).inheritPorts
  }

  get serverAddress(): string | undefined {
    return this.#address.serverAddress
  }

  get serverPort(): number | undefined {
    return this.#address.serverPort
  }

  route(destination: string, message: RawMessage): string {
    return checkTopic('topic', this.#settings.topic(destination, message))
  }

  write(message: RawMessage, topic: string): Envelope {
    return writeMessage(message, topic, this.#settings.mode)
  }

  async send(messages: readonly Outgoing<Envelope>[], { signal }: SendOptions): Promise<void> {
    if (!this.#watch.isUp) await this.#connected(signal)
    if (signal.aborted) return
    if (!this.#watch.isUp) {
      for (const message of messages) message.settle(notConnected(this.#watch.over))
      return
    }
    const refusal = this.#refusal()
    for (const message of messages) {
      if (refusal === undefined) this.#send(message, signal)
      else message.settle(refusal)
    }
  }

  /** Why nothing can be published on this connection with the QoS. */
  #refusal(): PublishFailure | undefined {
    const { qos } = this.#settings
    const { maximumQoS = 2 } = this.#watch.limits ?? {}
    if (maximumQoS < qos) return qosTooHigh(qos, maximumQoS)
    return qos === 2 && this.#watch.isResumed ? sessionResumed() : undefined
  }

  async #connected(signal: AbortSignal): Promise<void> {
    const { runtime, connectTimeout } = this.#settings
    using waiting = linkedController(signal)
    const timer = runtime.setTimeout(() => waiting.abort(undefined), connectTimeout)
    await this.#watch.settled(waiting.signal)
    timer.cancel()
  }

  #send(message: Outgoing<Envelope>, signal: AbortSignal): void {
    const { qos } = this.#settings
    const { item: envelope } = message
    const size = packetSize(envelope)
    const limit = this.#watch.limits?.maximumPacketSize ?? maxPacketSize
    if (size > limit) {
      message.settle(
        tooLarge(envelope.topic, `It has ${size} bytes with its properties, and the broker's maximum packet size is ${limit}.`),
      )
      return
    }
    this.#window.send({ envelope, qos, signal, onOutcome: (outcome) => message.settle(this.#resultOf(envelope.topic, outcome)) })
  }

  #resultOf(topic: string, outcome: Outcome): PublishResult {
    const { mandatory, unroutable } = this.#settings
    switch (outcome.kind) {
      case 'confirmed':
        return ok
      case 'noSubscribers':
        return mandatory ? noSubscribers(topic, unroutable) : ok
      case 'unsent':
        return notConnected(this.#watch.over)
      case 'failed':
        return outcome.error === undefined ? connectionLost(topic) : publishFailed(topic, outcome.error)
    }
  }
}
