import { type Logger, MemoryBroker } from '@ackord/core'
import { closeWithin } from '../lifecycle.ts'
import { usageError } from '../output/errors.ts'
import { talkingTo } from '../output/explain-failure.ts'
import type { Secrets } from '../output/secrets.ts'
import { parseServiceUrl, type ServiceUrl } from '../settings/urls.ts'
import type { Broker } from './broker.ts'

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
