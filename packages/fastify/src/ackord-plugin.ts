import { InvalidOptionError } from '@ackord/core'
import { checkName } from '@ackord/core/internal'
import { toFastifyPlugin } from '@ackord/http'
import type { OutboxAdmin, OutboxStore, OutboxWriter } from '@ackord/outbox'
import { Service } from '@ackord/outbox/service'
import { createService as createRedisService, type RedisServiceOptions } from '@ackord/redis/service'
import { validateSchema } from '@ackord/sql'
import { createService as createSqlService, type SqlServiceOptions } from '@ackord/sql/service'
import type { FastifyInstance, FastifyPluginAsync } from 'fastify'
import fastifyPlugin from 'fastify-plugin'
import { healthRoute } from './health-route.ts'

/** An outbox of any store. Which transactions `append()` accepts depends on the store. */
export interface FastifyOutbox extends OutboxStore, OutboxAdmin, OutboxWriter<unknown> {}

declare module 'fastify' {
  interface FastifyInstance {
    /** Stores events in the transaction of a request: `app.outbox.append(transaction, orderPlaced({ orderId }))`. */
    outbox: FastifyOutbox
    /** The service: its router, its relay and its health. */
    ackord: Service<FastifyOutbox>
  }
}

export interface RouteOptions {
  /** The path of a route that answers with 200 if the service is healthy, and with 503 otherwise, such as `/health`. Default: no route. */
  readonly health?: string | undefined
  /** The path of a route that passes requests to the source of the service, which must be an `httpSource()`. Default: no route. */
  readonly events?: string | undefined
}

/** Options of `createService()` on SQL, with `database`. */
export interface SqlPluginOptions extends RouteOptions, SqlServiceOptions<unknown> {
  /** Whether the application refuses to start if the tables are missing or outdated. Default: true. */
  readonly validateSchema?: boolean | undefined
}

/** Options of `createService()` on Redis, with `redis`. */
export interface RedisPluginOptions extends RouteOptions, RedisServiceOptions<FastifyOutbox> {}

/** A service that was created elsewhere. The plugin starts and closes it. */
export interface ServicePluginOptions extends RouteOptions {
  readonly service: Service<FastifyOutbox>
}

export type AckordPluginOptions = SqlPluginOptions | RedisPluginOptions | ServicePluginOptions

/**
 * Runs a service with the application: it is started when the application is ready, and closed after the last request is answered. Ackord logs through
 * `app.log`.
 *
 *     await app.register(ackord, { database, publisher, destination: 'order-events' })
 *     await app.outbox.append(transaction, orderPlaced({ orderId }))
 */
export const ackord: FastifyPluginAsync<AckordPluginOptions> = fastifyPlugin(
  async (app: FastifyInstance, options: AckordPluginOptions) => {
    const { health, events, ...parts } = options
    const { service, validate } = open(app, parts)
    app.decorate('ackord', service)
    app.decorate('outbox', service.outbox)
    app.addHook('onReady', async () => {
      await validate()
      service.start()
    })
    // By now all requests are answered.
    app.addHook('onClose', () => service.close())
    if (health !== undefined) healthRoute(app, checkName('health', health), service)
    if (events !== undefined) await app.register(toFastifyPlugin(handlerOf(service), events))
  },
  { fastify: '5.x', name: '@ackord/fastify' },
)

interface OpenedService {
  readonly service: Service<FastifyOutbox>
  /** Rejects if the service cannot work on its store. */
  validate(): Promise<void>
}

type Parts =
  | Omit<SqlPluginOptions, keyof RouteOptions>
  | Omit<RedisPluginOptions, keyof RouteOptions>
  | Omit<ServicePluginOptions, keyof RouteOptions>

async function nothingToValidate(): Promise<void> {}

function open(app: FastifyInstance, parts: Parts): OpenedService {
  const logger = app.log
  if ('service' in parts) {
    if (!(parts.service instanceof Service)) throw new InvalidOptionError('service', 'must be what createService() returns.')
    return { service: parts.service, validate: nothingToValidate }
  }
  if ('redis' in parts) return { service: createRedisService({ logger, ...parts }), validate: nothingToValidate }
  if (!('database' in parts)) throw new InvalidOptionError('ackord', 'needs a `database`, a `redis` or a `service`.')
  const { validateSchema: isValidated = true, ...options } = parts
  const { database, outbox } = options
  return {
    service: createSqlService({ logger, ...options }),
    validate: isValidated ? () => validateSchema(database, { schema: outbox?.schema, names: outbox?.names }) : nothingToValidate,
  }
}

function handlerOf({ source }: Service<FastifyOutbox>): (request: Request) => Promise<Response> {
  // Every httpSource() has it, also behind telemetry.
  const handler = (source as { handler?: (request: Request) => Promise<Response> } | undefined)?.handler
  if (handler === undefined) throw new InvalidOptionError('events', 'needs an httpSource() as the `source` of the service.')
  return handler
}
