import { InvalidOptionError, type Logger, type Runtime, systemRuntime } from '@ackord/core'
import { checkFunction, checkName, describeValue, guardLogger, rejectUnknownOptions } from '@ackord/core/internal'
import type { InstanceStore } from './instance-store.ts'
import { nestLogger } from './nest-logger.ts'
import type { AckordOptions, AckordRedisOptions, AckordSqlOptions, ConsumerOptions } from './options.ts'
import { redisStore } from './redis-store.ts'
import { sqlStore } from './sql-store.ts'

/** The parts of an instance. A testing module replaces it. */
export interface InstanceSettings {
  readonly store: InstanceStore
  readonly consumers: ReadonlyMap<string, ConsumerOptions>
  /** Creates the consumers that handlers name and `consumers` does not have, for tests. Default: a handler of an unknown consumer is an error. */
  readonly anyConsumer?: ((name: string) => ConsumerOptions) | undefined
  readonly handleMessages: boolean
  /** Whether the application starts the services. A test may rather deliver messages one by one. */
  readonly starts: boolean
  readonly eventSource: string | undefined
  readonly dashboard: AckordOptions['dashboard']
  readonly onClose: (() => unknown) | undefined
  readonly logger: Logger
  readonly runtime: Runtime
}

/** The settings of an instance on SQL or Redis. Does no I/O. */
export function settingsOf<Handle>(options: AckordOptions<Handle>): InstanceSettings {
  if (typeof options !== 'object' || options === null)
    throw new InvalidOptionError('AckordModule', `needs an object of options; it is ${describeValue(options)}.`)
  const logger = guardLogger(options.logger ?? nestLogger())
  const { handleMessages = true, dashboard, onClose, eventSource, runtime = systemRuntime } = options
  if (dashboard !== undefined) checkFunction('dashboard', dashboard)
  if (onClose !== undefined) checkFunction('onClose', onClose)
  return {
    store: storeOf({ ...options, logger, runtime }),
    consumers: consumersOf(options),
    handleMessages,
    starts: true,
    eventSource,
    dashboard,
    onClose,
    logger,
    runtime,
  }
}

function storeOf<Handle>(options: AckordOptions<Handle>): InstanceStore {
  rejectUnknown(options)
  if (options.database !== undefined && options.redis !== undefined)
    throw new InvalidOptionError('AckordModule', 'has both `database` and `redis`. Configure two instances, each with a `name`.')
  if (options.database !== undefined) return sqlStore(options as AckordSqlOptions<Handle>)
  if (options.redis !== undefined) return redisStore(options as AckordRedisOptions)
  throw new InvalidOptionError(
    'AckordModule',
    'needs a `database`, such as fromTypeorm(dataSource), or a `redis`, such as fromIoredis(client).',
  )
}

function consumersOf<Handle>({
  consumer,
  source,
  concurrency,
  use,
  router,
  consumers,
}: AckordOptions<Handle>): InstanceSettings['consumers'] {
  if (consumers !== undefined) {
    if (consumer !== undefined || source !== undefined)
      throw new InvalidOptionError('consumers', 'and the short form `consumer` with `source` exclude each other. Use one of the two.')
    return new Map(Object.entries(consumers).map(([name, one]) => [name, checkConsumer(name, { concurrency, use, router, ...one })]))
  }
  if (source === undefined && consumer === undefined) return new Map()
  if (consumer === undefined)
    throw new InvalidOptionError(
      'consumer',
      "is required with `source`: the name under which the inbox remembers handled messages, such as 'orders'.",
    )
  return new Map([[consumer, checkConsumer(consumer, { source, concurrency, use, router } as ConsumerOptions)]])
}

function checkConsumer(name: string, options: ConsumerOptions): ConsumerOptions {
  const { source, concurrency, use, router, ...unknown } = options
  checkName('The name of a consumer', name)
  rejectUnknownOptions(`The consumer '${name}'`, unknown)
  if (source === undefined)
    throw new InvalidOptionError('source', `is required: it is where the messages of the consumer '${name}' come from.`)
  return { source, concurrency, use, router }
}

/** The services of an instance get only the options that concern them, and could not find a misspelt one. */
function rejectUnknown<Handle>(options: AckordOptions<Handle>): void {
  const known: Record<keyof AckordSqlOptions<unknown> | keyof AckordRedisOptions, true> = {
    database: true,
    redis: true,
    outbox: true,
    inbox: true,
    transaction: true,
    groupCommit: true,
    cleanup: true,
    checkSchema: true,
    consumer: true,
    source: true,
    consumers: true,
    concurrency: true,
    use: true,
    router: true,
    handleMessages: true,
    publisher: true,
    destination: true,
    eventSource: true,
    marshaler: true,
    codecs: true,
    codecTimeout: true,
    relay: true,
    dashboard: true,
    telemetry: true,
    metrics: true,
    logger: true,
    runtime: true,
    onClose: true,
  }
  rejectUnknownOptions('AckordModule', Object.fromEntries(Object.entries(options).filter(([name]) => !(name in known))))
}
