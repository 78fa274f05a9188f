import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Logger, Runtime } from '@ackord/core'
import type { InboxAdmin, OutboxAdmin, OutboxStore, OutboxWriter } from '@ackord/outbox'
import type { RedisTransaction } from '@ackord/redis'
import type { RedisServiceOptions } from '@ackord/redis/service'
import type { SqlServiceOptions } from '@ackord/sql/service'

/** The options of one consumer. What is missing is taken from the instance, except `source`. */
export type ConsumerOptions<Handle = unknown> = Required<Pick<SqlServiceOptions<Handle>, 'source'>> &
  Pick<SqlServiceOptions<Handle>, 'concurrency' | 'use' | 'router'>

/** The contents of an instance's dashboard, and the path where it is mounted; for `createDashboard({ ...parts, authorize })`. */
export interface DashboardParts {
  readonly stores: Readonly<Record<string, OutboxAdmin>>
  readonly inboxes: Readonly<Record<string, InboxAdmin>>
  /** `/ackord`; another path may be given to `createDashboard()`. */
  readonly basePath: string
  readonly logger: Logger
  readonly runtime: Runtime
}

/** The part of `Dashboard` of `@ackord/dashboard` that the module uses. */
export interface MountedDashboard {
  node(request: IncomingMessage, response: ServerResponse, next: () => void): void
  close(): Promise<void>
}

interface InstanceOptions<Handle> {
  /** Several consumers in one process, by their names in the inbox. `consumer` and `source` are the short form for one. Default: none. */
  readonly consumers?: Readonly<Record<string, ConsumerOptions<Handle>>> | undefined
  /** Whether this process handles messages; `false`: it only stores and publishes events, and its handlers are ignored. Default: true. */
  readonly handleMessages?: boolean | undefined
  /**
   * Creates the dashboard, which is mounted in the HTTP server of the application: `(parts) => createDashboard({ ...parts, authorize })`. Default: none.
   */
  readonly dashboard?: ((parts: DashboardParts) => MountedDashboard) | undefined
}

/** An instance on a SQL database: the options of `createService()` of `@ackord/sql/service`, without handlers. */
export interface AckordSqlOptions<Handle> extends Omit<SqlServiceOptions<Handle>, 'handlers'>, InstanceOptions<Handle> {
  readonly redis?: undefined
  /** Whether the application refuses to start when tables are missing or too old. Default: true. */
  readonly checkSchema?: boolean | undefined
}

/** The outboxes of Redis. */
export type AnyRedisOutbox = OutboxStore & OutboxAdmin & OutboxWriter<RedisTransaction>

/** An instance on Redis: the options of `createService()` of `@ackord/redis/service`, without handlers. */
export interface AckordRedisOptions extends Omit<RedisServiceOptions<AnyRedisOutbox>, 'handlers'>, InstanceOptions<unknown> {
  readonly database?: undefined
}

/** The options of an instance. The logger is that of Nest by default. */
export type AckordOptions<Handle = unknown> = AckordSqlOptions<Handle> | AckordRedisOptions
