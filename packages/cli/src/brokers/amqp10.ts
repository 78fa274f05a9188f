import type { AmqpConnection } from '@ackord/amqp'
import type { Logger } from '@ackord/core'
import { declareTopology, rabbitmqDeadLetters } from '@ackord/rabbitmq'
import { connect as connectLegacy, type RecoveringChannelModel } from 'amqplib'
import type { Connection, ConnectionOptions } from 'rhea'
import { CommandError, exitCode } from '../output/errors.ts'
import type { ServiceUrl } from '../settings/urls.ts'
import { version } from '../version.ts'
import type { Broker } from './broker.ts'
import { loadPackages } from './optional-packages.ts'

const connectTimeout = 5000

/**
 * A destination is a queue, or an address such as `/exchanges/events`. AMQP 1.0 has no commands to create or look through queues. RabbitMQ speaks AMQP 0-9-1 at the same port, which has; at other
 * brokers the demo and `dead-letters` are not available.
 */
export async function openAmqp10(option: string, url: ServiceUrl, logger: Logger): Promise<Broker> {
  const [{ amqpPublisher, amqpSource }, rhea] = await loadPackages(option, [
    ['@ackord/amqp', version, () => import('@ackord/amqp')],
    ['rhea', '3', () => import('rhea')],
  ])
  const connect = () => connectOnce(rhea.default.create_container().connect(optionsOf(url)))
  const outgoing = await connect()
  const publisher = amqpPublisher(outgoing, { logger })
  // Brokers throttle connections that publish a lot, and acks on the same connection would be delayed.
  let incoming: Promise<Connection> | undefined
  let managing: Promise<RecoveringChannelModel> | undefined
  const manage = () => {
    managing ??= openManagement(url, outgoing)
    return managing
  }

  return {
    address: url.address,
    publisher,
    source(topic) {
      incoming ??= connect()
      const opening = incoming.then((connection) => amqpSource(connection, { address: topic, logger }))
      // The reader gets the error.
      opening.catch(() => {})
      return {
        async *messages(options) {
          yield* (await opening).messages(options)
        },
        async [Symbol.asyncDispose]() {
          await (await opening.catch(() => undefined))?.[Symbol.asyncDispose]()
        },
      }
    },
    createTopic: async (topic) => declareTopology(await manage(), { queues: { [topic]: {} } }),
    async removeTopic(topic) {
      const channel = await (await manage()).createChannel()
      await channel.deleteQueue(topic)
      await channel.close()
    },
    deadLetters: async (queue, { deliveryLimit }) => rabbitmqDeadLetters(await manage(), queue, { publisher, logger, deliveryLimit }),
    async problemOf(destination) {
      if (!isRabbitmq(outgoing) || destination.startsWith('/')) return undefined
      const channel = await (await manage()).createChannel()
      channel.on('error', () => {})
      try {
        await channel.checkQueue(destination)
        await channel.close()
        return undefined
      } catch {
        // RabbitMQ has closed the channel.
        return `There is no queue '${destination}', or access to it is denied. Declare it, or map the destination to an existing queue: --map ${destination}=queue`
      }
    },
    async [Symbol.asyncDispose]() {
      await publisher[Symbol.asyncDispose]()
      for (const connection of [outgoing, await incoming?.catch(() => undefined)]) await connection?.close()
      await (await managing?.catch(() => undefined))?.close()
    },
  }
}

/** `amqp10s:` is AMQP over TLS. The path is a virtual host of RabbitMQ. */
function optionsOf({ scheme, hosts, user, password, path }: ServiceUrl): ConnectionOptions {
  const [host = 'localhost'] = hosts
  const { hostname, port } = new URL(`any://${host}`)
  const isTls = scheme === 'amqp10s'
  const options = {
    // URL keeps the brackets around an IPv6 address.
    host: hostname.replaceAll(/[[\]]/g, ''),
    port: port === '' ? (isTls ? 5671 : 5672) : Number(port),
    ...(isTls ? { transport: 'tls' as const, servername: hostname } : {}),
    // Without a password rhea logs in by the mechanism ANONYMOUS.
    username: user ?? 'anonymous',
    ...(password === undefined ? {} : { password }),
    ...(path === '' ? {} : { hostname: `vhost:${path}` }),
    // Brokers shut down with an error, after which rhea would not connect again.
    all_errors_non_fatal: true,
    // Service Bus closes connections without traffic.
    idle_time_out: 60_000,
  }
  return options as ConnectionOptions
}

/** Resolves when the broker has opened the connection, which rhea restores from then on. */
async function connectOnce(connection: Connection): Promise<Connection> {
  const timeout = AbortSignal.timeout(connectTimeout)
  // rhea prints or throws errors that have no listener. The source and the publisher log them.
  for (const event of ['connection_error', 'disconnected', 'error']) connection.on(event, () => {})
  try {
    await new Promise<void>((resolve, reject) => {
      connection.once('connection_open', () => resolve())
      for (const event of ['connection_error', 'connection_close', 'disconnected'])
        connection.once(event, ({ error }) => reject(toError(error ?? connection.error)))
      timeout.addEventListener('abort', () => reject(new Error('connection timeout')))
    })
    return connection
  } catch (error) {
    connection['set_reconnect'](false)
    connection['socket']?.destroy()
    throw error
  }
}

/** With `SASL` for a login that the broker refuses. */
function toError(error: unknown): Error {
  const { condition, description, message } = (error ?? {}) as Readonly<Record<string, string | undefined>>
  const text = message || description || 'the broker closed the connection'
  if (condition === undefined) return error instanceof Error ? error : new Error(text)
  return new Error(`${/authenticate/i.test(text) ? 'SASL: ' : ''}${text} (${condition})`, { cause: error })
}

async function openManagement({ text, address }: ServiceUrl, connection: AmqpConnection): Promise<RecoveringChannelModel> {
  if (!isRabbitmq(connection)) {
    throw new CommandError(`${address} is not RabbitMQ: AMQP 1.0 has no commands to create queues or to look through them.`, {
      exitCode: exitCode.failed,
      hint: "Use the broker's own tools. A relay needs only queues that exist.",
    })
  }
  const channels = await connectLegacy(text.replace(/^amqp10(s?):/i, 'amqp$1:'), {
    timeout: connectTimeout,
    recovery: { initialMaxRetries: 0 },
  })
  // The call that fails rejects with the same reason.
  channels.on('error', () => {})
  return channels
}

function isRabbitmq({ properties }: AmqpConnection): boolean {
  return /rabbitmq/i.test(String(properties?.['product'] ?? ''))
}
