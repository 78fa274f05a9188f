import { type Logger, MemoryBroker, type Publisher, type Source } from '@ackord/core'
import { closeWithin } from '../lifecycle.ts'
import { usageError } from '../output/errors.ts'
import { talkingTo } from '../output/explain-failure.ts'
import type { Secrets } from '../output/secrets.ts'
import { parseServiceUrl, type ServiceUrl } from '../settings/urls.ts'

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
      const { openRabbitmq } = await import('./rabbitmq.ts')
      return await openRabbitmq(url, logger)
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
    case 'redis':
    case 'rediss':
    case 'redis+cluster':
    case 'rediss+cluster': {
      const { openRedisStreams } = await import('./redis-streams.ts')
      return await openRedisStreams(url, logger)
    }
    case 'memory': {
      if (!memory)
        throw usageError(
          `${option} is 'memory:', which ends with the command: whatever is published there is lost.`,
          `Expected one of: ${examples.join(', ')}`,
        )
      const { openMemory } = await import('./open-broker.ts')
      return openMemory(logger)
    }
    default:
      throw usageError(`${option} has the scheme '${url.scheme}:', which is no broker.`, `Expected one of: ${examples.join(', ')}`)
  }
}

/** A broker that the command has connected to. */
export interface Broker {
  /** To be printed. */
  readonly address: string
  /** What the relay publishes with. */
  readonly publisher: Publisher
  /** Reads a topic that `createTopic` made, for the demo: alone, from its first message on. */
  source(topic: string): Source & AsyncDisposable
  /** Makes what a message to this name needs to be kept until it is read. */
  createTopic(topic: string): Promise<void>
  /**
   * The name under which a message is delivered once more by a topic that `createTopic` made: a broker that drops what it was sent before would otherwise keep the
   * demo from repeating one. Default: the topic's own.
   */
  repeatTopic?(topic: string): string
  /** With all that is in it. Idempotent. */
  removeTopic(topic: string): Promise<void>
  /** Why publishing to this name would fail, as far as the broker can be asked; `undefined` if nothing is known to be wrong. */
  problemOf?(destination: string): Promise<string | undefined>
  /** Closes the connection. */
  [Symbol.asyncDispose](): Promise<void>
}

/** In this process: for the demo. */
export function openMemory(logger: Logger): Broker {
  const broker = new MemoryBroker({ logger })
  return {
    address: 'memory:',
    publisher: broker,
    source: (topic) => broker.source(topic),
    // A topic comes to be when it is first named, and goes with the broker.
    createTopic: () => Promise.resolve(),
    removeTopic: () => Promise.resolve(),
    [Symbol.asyncDispose]: () => broker.close(),
  }
}
