import type { Logger } from '@ackord/core'
import type { IClientOptions, MqttClient } from 'mqtt'
import { usageError } from '../output/errors.ts'
import type { ServiceUrl } from '../settings/urls.ts'
import { version } from '../version.ts'
import type { Broker } from './broker.ts'
import { loadPackages } from './optional-packages.ts'

const connectTimeout = 5000
/** The group of the demo's subscriptions. */
const group = 'demo'

/** A destination is a topic. A message to a topic without subscribers is refused. */
export async function openMqtt(option: string, url: ServiceUrl, logger: Logger): Promise<Broker> {
  if (url.path !== '') {
    throw usageError(`${option} has a path, which MQTT does not have.`, 'Expected: mqtt://user:password@host:1883 or mqtts://host:8883')
  }
  const [{ mqttPublisher, mqttSource }, { default: mqtt }] = await loadPackages(option, [
    ['@ackord/mqtt', version, () => import('@ackord/mqtt')],
    ['mqtt', '5', () => import('mqtt')],
  ])
  const server = optionsOf(url)
  /** Without retries: a command ends if it cannot connect at first. The client restores the connection from then on. */
  const connect = async (options: IClientOptions = {}) => quiet(await mqtt.connectAsync('', { ...server, ...options }, false))
  const outgoing = await connect()
  const publisher = mqttPublisher(outgoing, { logger })

  return {
    address: url.address,
    publisher,
    source(topic) {
      // The source is created before the client has connected, so that it gets the messages that wait in the session.
      const incoming = quiet(mqtt.connect({ ...server, ...sessionOf(topic) }))
      const source = mqttSource(incoming, { topic, group, logger })
      return {
        messages: (options) => source.messages(options),
        async [Symbol.asyncDispose]() {
          await source[Symbol.asyncDispose]()
          await incoming.endAsync()
        },
      }
    },
    // A message without a subscription is lost, so the session of the source exists before anything is published.
    async createTopic(topic) {
      const client = await connect(sessionOf(topic))
      await client.subscribeAsync(`$share/${group}/${topic}`, { qos: 1, rh: 2 })
      await client.endAsync()
    },
    // The messages are in the session, which ends when a client discards it.
    async removeTopic(topic) {
      const client = await connect({ clientId: clientIdOf(topic), clean: true })
      await client.endAsync()
    },
    problemOf: async (destination) =>
      /[+#]/.test(destination)
        ? `'${destination}' is a topic filter, which messages cannot be published to. Map the destination to a topic: --map ${destination}=topic`
        : undefined,
    async [Symbol.asyncDispose]() {
      await publisher[Symbol.asyncDispose]()
      await outgoing.endAsync()
    },
  }
}

function optionsOf({ scheme, hosts, user, password }: ServiceUrl): IClientOptions {
  const [host = 'localhost'] = hosts
  const { hostname, port } = new URL(`any://${host}`)
  const isTls = scheme === 'mqtts'
  return {
    protocol: isTls ? 'mqtts' : 'mqtt',
    // URL keeps the brackets around an IPv6 address.
    host: hostname.replaceAll(/[[\]]/g, ''),
    port: port === '' ? (isTls ? 8883 : 1883) : Number(port),
    ...(user !== undefined && { username: user }),
    ...(password !== undefined && { password }),
    protocolVersion: 5,
    connectTimeout,
    // A broker that is restarted may refuse connections for a while.
    reconnectOnConnackError: true,
  }
}

function clientIdOf(topic: string): string {
  return `ackord-${topic}`
}

function sessionOf(topic: string): IClientOptions {
  return { clientId: clientIdOf(topic), clean: false, properties: { sessionExpiryInterval: 3600, receiveMaximum: 100 } }
}

/** The source and the publisher log errors of the connection; without a listener, an error would end the process. */
function quiet(client: MqttClient): MqttClient {
  return client.on('error', () => {})
}
