import { type Logger, MemoryBroker, type Publisher, type Source } from '@ackord/core'
import type { DeadLetters } from '@ackord/core/broker'
import { closeWithin } from '../lifecycle.ts'
import { usageError } from '../output/errors.ts'
import { talkingTo } from '../output/explain-failure.ts'
import type { Secrets } from '../output/secrets.ts'
import { parseServiceUrl, type ServiceUrl } from '../settings/urls.ts'

export interface OpenBrokerOptions {
  /** The option to name in errors if the URL is invalid. */
  readonly option: string
  readonly logger: Logger
  readonly secrets: Secrets
  /** Whether `memory:` is allowed, whose messages are lost when the command ends. Default: false. */
  readonly memory?: boolean | undefined
}

const examples = [
  'amqp://host:5672',
  'amqp10://host:5672',
  'nats://host:4222',
  'kafka://host:9092',
  'mqtt://host:1883',
  'redis://host:6379',
  'redis+cluster://host:6379',
  'sqs:',
  'sns:',
  'eventbridge:',
]

/** Connects to the broker at a URL. The caller closes it. */
export async function openBroker(text: string | undefined, options: OpenBrokerOptions): Promise<Broker> {
  const { option, secrets } = options
  if (text === undefined) throw usageError(`${option} is missing.`, `Pass it, set ACKORD_BROKER, or set 'broker' in ackord.config.ts.`)
  secrets.addUrl(text)
  const url = parseServiceUrl(option, text, examples)
  const broker = await talkingTo(url.address, () => open(url, options))
  return { ...broker, [Symbol.asyncDispose]: () => closeWithin(() => broker[Symbol.asyncDispose]()) }
}

/** The clients are loaded on demand: each adds to the start-up time. */
async function open(url: ServiceUrl, { option, logger, memory = false }: OpenBrokerOptions): Promise<Broker> {
  switch (url.scheme) {
    case 'amqp':
    case 'amqps': {
      const { openRabbitmq } = await import('./rabbitmq.ts')
      return await openRabbitmq(url, logger)
    }
    case 'amqp10':
    case 'amqp10s': {
      const { openAmqp10 } = await import('./amqp10.ts')
      return await openAmqp10(option, url, logger)
    }
    case 'nats':
    case 'tls': {
      const { openNats } = await import('./nats.ts')
      return await openNats(url, logger)
    }
    case 'kafka':
    case 'kafkas': {
      const { openKafka } = await import('./kafka.ts')
      return await openKafka(url, logger)
    }
    case 'mqtt':
    case 'mqtts': {
      const { openMqtt } = await import('./mqtt.ts')
      return await openMqtt(option, url, logger)
    }
    case 'redis':
    case 'rediss':
    case 'redis+cluster':
    case 'rediss+cluster': {
      const { openRedisStreams } = await import('./redis-streams.ts')
      return await openRedisStreams(url, logger)
    }
    case 'sqs':
    case 'sqss': {
      const { openSqs } = await import('./sqs.ts')
      return await openSqs(option, url, logger)
    }
    case 'sns':
    case 'snss': {
      const { openSns } = await import('./aws-publishers.ts')
      return await openSns(option, url)
    }
    case 'eventbridge':
    case 'eventbridges': {
      const { openEventBridge } = await import('./aws-publishers.ts')
      return await openEventBridge(option, url)
    }
    case 'memory': {
      if (!memory)
        throw usageError(
          `${option} is 'memory:', which exists only while the command runs: everything published there is lost.`,
          `Expected one of: ${examples.join(', ')}`,
        )
      return openMemory(logger)
    }
    default:
      throw usageError(
        `${option} has the scheme '${url.scheme}:', which is not a supported broker.`,
        `Expected one of: ${examples.join(', ')}`,
      )
  }
}

export interface LettersOptions {
  /** The group whose offset marks the letters that are done; Kafka only. */
  readonly group: string
  /** The delivery limit of the queue; RabbitMQ only. Default: that of `rabbitmqDeadLetters()`. */
  readonly deliveryLimit?: number | 'none' | undefined
}

/** A broker that the command has connected to. */
export interface Broker {
  /** For output, without secrets. */
  readonly address: string
  /** The publisher that the relay uses. */
  readonly publisher: Publisher
  /** Reads a topic that `createTopic` created, for the demo: as the only consumer, from its first message on. */
  source(topic: string): Source & AsyncDisposable
  /** Creates what the broker needs to keep a message to this name until it is read. */
  createTopic(topic: string): Promise<void>
  /**
   * The name under which a topic created by `createTopic` delivers a message a second time: a broker that deduplicates would otherwise prevent the
   * demo from repeating one. Default: the topic's own name.
   */
  repeatTopic?(topic: string): string
  /** Deletes the topic and its messages. Idempotent. */
  removeTopic(topic: string): Promise<void>
  /** The letters of a dead-letter destination. */
  deadLetters?(from: string, options: LettersOptions): DeadLetters | Promise<DeadLetters>
  /** Why publishing to this name would fail, as far as the broker can tell; `undefined` if no problem is known. */
  problemOf?(destination: string): Promise<string | undefined>
  /** Closes the connection. */
  [Symbol.asyncDispose](): Promise<void>
}

/** An in-process broker for the demo. */
export function openMemory(logger: Logger): Broker {
  const broker = new MemoryBroker({ logger })
  return {
    address: 'memory:',
    publisher: broker,
    source: (topic) => broker.source(topic),
    // A topic is created on first use, and disappears with the broker.
    createTopic: () => Promise.resolve(),
    removeTopic: () => Promise.resolve(),
    [Symbol.asyncDispose]: () => broker.close(),
  }
}
