import { eventHandler, MemoryBroker, Message, Router, silentLogger } from '@ackord/core'
import { Relay } from '@ackord/outbox'
import { fromIoredis, transactional as redisTransactional, streamOutbox } from '@ackord/redis'
import { luaOutbox } from '@ackord/redis/lua-outbox'
import { createSchema, sqlIdempotency, sqlOutbox, transactional } from '@ackord/sql'
import { fromMysql2 } from '@ackord/sql/mysql'
import { fromPg } from '@ackord/sql/postgres'
import { fromSqlite } from '@ackord/sql/sqlite'

/**
 * The API of a release that a service and its relay use. `previous-release.mjs` is this file as of the previous release, bundled by
 * `scripts/bundle-release.mjs`, so that both run on the same tables and keys, as they do during a rolling deployment.
 */
export const release = {
  Router,
  Relay,
  Message,
  MemoryBroker,
  eventHandler,
  silentLogger,
  createSchema,
  sqlIdempotency,
  sqlOutbox,
  transactional,
  fromPg,
  fromMysql2,
  fromSqlite,
  fromIoredis,
  streamOutbox,
  luaOutbox,
  redisTransactional,
}

export type Release = typeof release
