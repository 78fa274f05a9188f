import type { Logger } from '@ackord/core'
import type { Broker } from './brokers/broker.ts'
import { closeWithin } from './close-within.ts'
import { usageError } from './command-error.ts'
import { talkingTo } from './explain-failure.ts'
import type { Secrets } from './secrets.ts'
import { parseServiceUrl, type ServiceUrl } from './service-url.ts'

export interface OpenBrokerOptions {
  /** What the user has to look at if the URL is wrong. */
  readonly option: string
  readonly logger: Logger
  readonly secrets: Secrets
  /** Whether `memory:` will do, which ends with the command. Default: false. */
  readonly memory?: boolean | undefined
}

const examples = ['amqp://host:5672', 'nats://host:4222', 'kafka://host:9092', 'redis://host:6379', 'redis+cluster://host:6379']

/** Connects to the broker that a URL names. The caller closes it. */
export async function openBroker(text: string | undefined, options: OpenBrokerOptions): Promise<Broker> {
  const { option, secrets } = options
  if (text === undefined) throw usageError(`${option} is missing.`, `Give it, set ACKORD_BROKER, or put 'broker' into ackord.config.ts.`)
  secrets.addUrl(text)
  const url = parseServiceUrl(option, text, examples)
  const broker = await talkingTo(url.address, () => open(url, options))
  return { ...broker, [Symbol.asyncDispose]: () => closeWithin(() => broker[Symbol.asyncDispose]()) }
}

/** The clients are loaded when they are needed: each costs time at the start. */
async function open(url: ServiceUrl, { option, logger, memory = false }: OpenBrokerOptions): Promise<Broker> {
  switch (url.scheme) {
    case 'amqp':
    case 'amqps': {
      const { openRabbitmq } = await import('./brokers/rabbitmq.ts')
      return await openRabbitmq(url, logger)
    }
    case 'nats':
    case 'tls': {
      const { openNats } = await import('./brokers/nats.ts')
      return await openNats(url, logger)
    }
    case 'kafka':
    case 'kafkas': {
      const { openKafka } = await import('./brokers/kafka.ts')
      return await openKafka(url, logger)
    }
    case 'redis':
    case 'rediss':
    case 'redis+cluster':
    case 'rediss+cluster': {
      const { openRedisStreams } = await import('./brokers/redis-streams.ts')
      return await openRedisStreams(url, logger)
    }
    case 'memory': {
      if (!memory)
        throw usageError(
          `${option} is 'memory:', which ends with the command: whatever is published there is lost.`,
          `Expected one of: ${examples.join(', ')}`,
        )
      const { openMemory } = await import('./brokers/memory.ts')
      return openMemory(logger)
    }
    default:
      throw usageError(`${option} has the scheme '${url.scheme}:', which is no broker.`, `Expected one of: ${examples.join(', ')}`)
  }
}
