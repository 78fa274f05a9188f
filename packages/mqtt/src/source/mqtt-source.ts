import {
  type Attributes,
  type Backoff,
  type Closable,
  exponentialBackoff,
  InvalidOptionError,
  type Source,
  systemRuntime,
} from '@ackord/core'
import { createReceiver, IteratedSource, type ReceiverOptions } from '@ackord/core/broker'
import { checkCount, checkDuration, checkFunction, rejectUnknownOptions } from '@ackord/core/internal'
import { type MqttClient, type MqttPublish, ServerAddress } from '../client.ts'
import { ConnectionWatch } from '../connection-watch.ts'
import { checkFilter, checkGroup } from '../topic.ts'
import { MqttIteration } from './mqtt-iteration.ts'
import { Subscription } from './subscription.ts'

export interface MqttSourceOptions extends ReceiverOptions {
  /** The topic filter to subscribe to, such as `orders/#`. */
  readonly topic: string
  /** The group of the shared subscription: each message goes to one client of the group. It has no default: shared by accident, it loses messages. */
  readonly group: string
  /**
   * The most unsettled messages of an iteration: those that wait to be pulled and those being handled. The broker sends no more than the client's `receiveMaximum`, which also
   * counts messages that wait for a delay or for the acknowledgement of an earlier one. Default: as many as the broker sends.
   */
  readonly prefetch?: number | undefined
  /**
   * Returns the attributes of a message that the broker has delivered. If it throws, the message is rejected. Default: the attributes of a CloudEvent in binary or structured mode; for
   * other messages their user properties, and the topic as the source.
   */
  readonly attributes?: ((native: MqttPublish) => Attributes) | undefined
  /**
   * The longest delay of a nack in milliseconds; longer delays are shortened to it. The message waits in this process, and no later message is acknowledged before it:
   * with `receiveMaximum` later messages, the source stands still. Default: 600,000.
   */
  readonly maxDelay?: number | undefined
  /** The pause before a subscription is tried again after a failure. Default: 100 ms × 2ⁿ up to 30 s, ± 20 %. */
  readonly backoff?: Backoff | undefined
}

/**
 * The messages of a shared subscription with QoS 1. Make the client with `mqtt.connect(url, { protocolVersion: 5, clean: false, clientId, properties: { sessionExpiryInterval, receiveMaximum } })`
 * and the source directly afterwards, before the client has connected. Each instance of a service has a client id of its own, which stays the same when it is
 * restarted: the broker keeps the messages of an instance in its session.
 *
 * A message is acknowledged when its handler has acked it, or its dead letter is confirmed, and all messages that arrived before it are acknowledged: MQTT demands that order. After a crash the broker
 * delivers to the next connection with the same client id what was not acknowledged. A lost connection does not disturb handlers: their messages can be settled, and are acknowledged on the
 * next connection.
 */
export function mqttSource(client: MqttClient, options: MqttSourceOptions): Source & Closable {
  const {
    topic,
    group,
    prefetch = Number.POSITIVE_INFINITY,
    attributes,
    maxDelay = 600_000,
    backoff = exponentialBackoff({ initial: 100, max: 30_000 }),
    deadLetter,
    deadLetterTimeout,
    onUndeliverable,
    runtime = systemRuntime,
    logger,
    ...unknown
  } = options
  rejectUnknownOptions('An MQTT source', unknown)
  checkFilter('topic', topic)
  checkGroup('group', group)
  checkCount('prefetch', prefetch, { infinite: true })
  if (attributes !== undefined) checkFunction('attributes', attributes)
  checkDuration('maxDelay', maxDelay)
  checkFunction('backoff', backoff)
  const watch = ConnectionWatch.of(client, logger)
  checkSession(client)
  const receive = createReceiver({ deadLetter, deadLetterTimeout, onUndeliverable, runtime, logger: logger ?? watch.logger })
  const subscription = Subscription.of(client, { group, topic, runtime, logger: receive.logger, sessionPresent: watch.sessionPresent })
  const settings = { client, watch, subscription, prefetch, maxDelay, attributes, backoff, runtime, logger: receive.logger, receive }
  return new IteratedSource((signal, owner) => new MqttIteration(settings, signal, owner), receive, new ServerAddress(client))
}

/** A session that ends with its connection loses the messages that wait in it. */
function checkSession({ options }: MqttClient): void {
  const { clean, clientId, properties = {} } = options
  const { sessionExpiryInterval = 0, topicAliasMaximum = 0 } = properties
  if (clean !== false) throw unfit('has a clean session, whose messages are lost with each connection. Connect with { clean: false }.')
  if (sessionExpiryInterval < 1) {
    throw unfit(
      'has a session that expires when it disconnects, with the messages in it. Connect with { properties: { sessionExpiryInterval } }, in seconds, longer than any outage.',
    )
  }
  if (clientId === undefined || clientId === '' || generatedClientId.test(clientId)) {
    throw unfit(
      'has no client id of its own, so a restarted process could not continue its session. Connect with { clientId }, one for each instance.',
    )
  }
  if (topicAliasMaximum > 0)
    throw unfit('accepts topic aliases, which hide the topics of messages. Connect without properties.topicAliasMaximum.')
}

// The form of the ids that the client generates if the application sets none.
const generatedClientId = /^mqttjs_[0-9a-f]{1,8}$/

function unfit(text: string): InvalidOptionError {
  return new InvalidOptionError('client', text)
}
