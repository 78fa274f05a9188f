// @ts-check
import { kafkaMock } from './kafka-mock.mjs'
import { mariadb } from './mariadb.mjs'
import { nats } from './nats.mjs'
import { pgbouncer } from './pgbouncer.mjs'
import { postgres } from './postgres.mjs'
import { rabbitmq } from './rabbitmq.mjs'
import { redis } from './redis.mjs'
import { redisCluster } from './redis-cluster.mjs'

/**
 * @typedef {object} Kind
 * @property {string} name as in `--only`
 * @property {string} variable
 * @property {string} [alias] another name of the variable, ignored if the variable is set
 * @property {number} defaultPort
 * @property {string | undefined} defaultUrl where a server may already run; `undefined` if it is always started by us
 * @property {string} debianPackage
 * @property {() => string | undefined} locate finds the binary that starts it
 * @property {(url: string) => Promise<void>} probe rejects with the reason, unless such a server answers there and can
 *   be used with this URL
 * @property {() => Promise<import('./server.mjs').Server>} start
 */

/** @type {readonly Kind[]} */
export const kinds = [postgres, pgbouncer, mariadb, redis, redisCluster, rabbitmq, nats, kafkaMock]
