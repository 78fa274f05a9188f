// @ts-check
import { fauxqs } from './fauxqs.mjs'
import { kafka } from './kafka.mjs'
import { mariadb } from './mariadb.mjs'
import { mosquitto } from './mosquitto.mjs'
import { nats } from './nats.mjs'
import { pgbouncer } from './pgbouncer.mjs'
import { postgres } from './postgres.mjs'
import { rabbitmq } from './rabbitmq.mjs'
import { rabbitmq4 } from './rabbitmq4.mjs'
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
 * @property {(environment: NodeJS.ProcessEnv) => Promise<string | undefined>} [obstacle] the reason why it cannot be started,
 *   if apt-get cannot change that. Default: there is none.
 * @property {() => Promise<void>} [prepare] downloads it, if `debianPackage` is not what apt-get installs
 * @property {() => Promise<import('./server.mjs').Server>} start
 */

/** @type {readonly Kind[]} */
export const kinds = [postgres, pgbouncer, mariadb, redis, redisCluster, rabbitmq, nats, mosquitto, kafka, fauxqs]

/**
 * Servers that must be downloaded first. Only runs that name them have them: `make test-matrix` and `make proof`.
 *
 * @type {readonly Kind[]}
 */
export const extraKinds = [rabbitmq4]
