import { consoleLogger, type Logger, Router } from '@ackord/core'
import { Relay } from '@ackord/outbox'
import { fromNodeRedis, streamOutbox, transactional } from '@ackord/redis'
import { streamPublisher, streamSource } from '@ackord/redis/streams'
import { createClient } from 'redis'
import { placeOrderHandler } from './orders.ts'

export interface Settings {
  readonly redisUrl: string
  /** The hash tag of all keys of this service. */
  readonly tag: string
  /** The stream of commands. */
  readonly commands: string
  /** The stream of events. */
  readonly events: string
  readonly logger?: Logger
}

export interface Service extends AsyncDisposable {
  /** Rejects if the service cannot continue. */
  readonly running: Promise<void>
  /** Finishes handling and publishing, and closes all connections. Unpublished records stay in the outbox. */
  stop(): Promise<void>
}

/** Renewed while a handler runs. A duplicate that arrives meanwhile, or a message that a crash left unfinished, waits until it expires. */
const lease = 2_000

export async function startService({ redisUrl, tag, commands, events, logger = consoleLogger }: Settings): Promise<Service> {
  const client = createClient({ url: redisUrl })
  client.on('error', (error) => logger.warn({ err: error }, 'The connection to Redis has a problem.'))
  await client.connect()
  const redis = fromNodeRedis(client, { logger })

  const outbox = streamOutbox(redis, { tags: [tag], logger })
  const publisher = streamPublisher(redis)
  const relay = new Relay(outbox, { publisher, logger }).start()

  const source = streamSource(redis, { stream: commands, group: 'order-service' })
  const router = new Router({ concurrency: 8, maxDeliveries: 10, logger })
    .use(transactional(redis, { inbox: { consumer: 'order-service', tag, lease }, outbox: { outbox, destination: events } }))
    .handle(placeOrderHandler({ redis, tag, read: (key) => client.get(key) }))
  const running = router.run(source)

  async function stop(): Promise<void> {
    await router.stop()
    await running.catch(() => {})
    await relay.stop()
    await source[Symbol.asyncDispose]()
    await publisher[Symbol.asyncDispose]()
    client.destroy()
  }
  return { running, stop, [Symbol.asyncDispose]: stop }
}
