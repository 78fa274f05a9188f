import { setMaxListeners } from 'node:events'
import { type Attributes, type Closable, Message, type Publisher, publishAll, type RawMessage, type Source } from '@ackord/core'
import { type RecordingLogger, recordingLogger } from '@ackord/testkit'
import mqtt, { type IClientOptions, type MqttClient } from 'mqtt'
import { ownName } from '../../../../scripts/test-run.mjs'
import { type MqttPublisherOptions, type MqttSourceOptions, mqttPublisher, mqttSource } from '../../src/index.ts'

export const mqttUrl: string = process.env['MQTT_URL'] ?? 'mqtt://127.0.0.1:1883'

export interface WorldOptions {
  /** The URL of the clients under test. Default: the same server as the admin's. */
  readonly url?: string
  /** The server. Default: the shared one. */
  readonly server?: string
}

export interface World extends AsyncDisposable {
  readonly logger: RecordingLogger
  /** A client that observes the server. */
  readonly admin: MqttClient
  /** A unique name, of a topic or a client. */
  name(): string
  /** A client that begins to connect; ended at the end, with its session. */
  client(options?: IClientOptions): MqttClient
  /** A client whose session has a subscription before the client connects, so that no message to it is lost. */
  member(topic: string, options?: IClientOptions & { readonly group?: string }): Promise<MqttClient>
  /** A source of the group `billing`, on its own client unless one is given. */
  source(topic: string, options?: Partial<MqttSourceOptions>, on?: MqttClient): Source & Closable
  publisher(options?: MqttPublisherOptions, on?: MqttClient): Publisher & Closable
  /** Creates the session of a client, with a subscription, so that messages wait there for its source. */
  declare(clientId: string, topic: string, group?: string): Promise<void>
  /** Publishes one message per id, through a publisher that is independent of the test. */
  fill(topic: string, ids: readonly string[]): Promise<void>
}

export function persistent(clientId: string, options: IClientOptions = {}): IClientOptions {
  const { properties, ...more } = options
  return {
    protocolVersion: 5,
    clean: false,
    clientId,
    reconnectPeriod: 30,
    properties: { sessionExpiryInterval: 3600, receiveMaximum: 100, ...properties },
    ...more,
  }
}

export async function openWorld(options: WorldOptions = {}): Promise<World> {
  const { server = mqttUrl, url = server } = options
  const logger = recordingLogger()
  const clients: MqttClient[] = []
  const sessions = new Set<string>()
  const opened: AsyncDisposable[] = []
  const admin = await mqtt.connectAsync(server, { protocolVersion: 5, clientId: `ackord-admin-${ownName()}` })
  const filler = mqttPublisher(admin)
  const name = () => `ackord-test-${ownName()}`

  function client(more: IClientOptions = {}): MqttClient {
    const clientId = more.clientId ?? name()
    const made = mqtt.connect(url, persistent(clientId, more))
    // Tests count clients by their sources and publishers, which log the errors.
    made.on('error', () => {})
    sessions.add(clientId)
    clients.push(made)
    return made
  }

  async function declare(clientId: string, topic: string, group = 'billing'): Promise<void> {
    sessions.add(clientId)
    const declaring = await mqtt.connectAsync(server, persistent(clientId))
    await declaring.subscribeAsync(`$share/${group}/${topic}`, { qos: 1, rh: 2 })
    await declaring.endAsync()
  }

  async function removeSession(clientId: string): Promise<void> {
    const last = await mqtt.connectAsync(server, { protocolVersion: 5, clean: true, clientId })
    await last.endAsync()
  }

  return {
    logger,
    admin,
    name,
    client,
    async member(topic, { group, clientId = name(), ...more } = {}) {
      await declare(clientId, topic, group)
      return client({ clientId, ...more })
    },
    source(topic, more = {}, on = client()) {
      const source = mqttSource(on, { topic, group: 'billing', logger, backoff: () => 5, ...more })
      opened.push(source)
      return source
    },
    publisher(more = {}, on = client(more.qos === 2 ? {} : { clean: true, properties: { sessionExpiryInterval: 0 } })) {
      const publisher = mqttPublisher(on, { logger, ...more })
      opened.push(publisher)
      return publisher
    },
    declare,
    fill: (topic, ids) =>
      publishAll(
        filler,
        topic,
        ids.map((id) => event(id)),
      ),
    async [Symbol.asyncDispose]() {
      for (const each of opened) await each[Symbol.asyncDispose]()
      await Promise.all(clients.map((each) => each.endAsync(true)))
      await Promise.all([...sessions].map(removeSession))
      await filler.close()
      await admin.endAsync()
    },
  }
}

export function event(id: string, attributes: Attributes = {}): RawMessage {
  const data = new TextEncoder().encode(JSON.stringify({ id }))
  return new Message(data, { id, type: 'test.event', source: '/test', specversion: '1.0', ...attributes })
}

export function numbered(count: number, prefix = 'm'): string[] {
  return Array.from({ length: count }, (_, index) => `${prefix}${index}`)
}

/** Polls until the condition holds, for at most 20 seconds. Each check is a round trip to the server, or a turn of the event loop. */
export async function until(isSo: () => boolean | Promise<boolean>): Promise<void> {
  const limit = AbortSignal.timeout(20_000)
  while (!(await isSo())) {
    limit.throwIfAborted()
    await new Promise((resolve) => setImmediate(resolve))
  }
}

/** Resolves when the broker has answered; it has then received all that the client had sent before. */
export async function roundTrip(client: MqttClient): Promise<void> {
  await client.publishAsync(`ackord-test-${ownName()}`, '', { qos: 1 })
}

/** Ends a client as a process that dies does: the broker is not notified, and keeps its session. */
export async function die(client: MqttClient): Promise<void> {
  client.options.reconnectPeriod = 0
  client.stream.destroy()
  await client.endAsync(true)
}

export function open(source: Source, signal: AbortSignal = never): AsyncIterator<RawMessage> {
  return source.messages({ signal })[Symbol.asyncIterator]()
}

export async function pull(messages: AsyncIterator<RawMessage>): Promise<RawMessage> {
  const { value, done } = await messages.next()
  if (done === true) throw new Error('The iteration has ended.')
  return value
}

export async function pullMany(messages: AsyncIterator<RawMessage>, count: number): Promise<RawMessage[]> {
  const pulled: RawMessage[] = []
  while (pulled.length < count) pulled.push(await pull(messages))
  return pulled
}

/** A signal that is never aborted; many concurrent calls may use it. */
export const never: AbortSignal = new AbortController().signal
setMaxListeners(0, never)
