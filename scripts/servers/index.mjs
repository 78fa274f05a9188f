// @ts-check
// For tests that need a separate server, to kill it or to fill it.
export { startKafkaMock } from './kafka-mock.mjs'
export { startMariadb } from './mariadb.mjs'
export { startNats } from './nats.mjs'
export { startPgbouncer } from './pgbouncer.mjs'
export { startPostgres } from './postgres.mjs'
export { startPostgresStandby } from './postgres-standby.mjs'
export { startRabbitmq } from './rabbitmq.mjs'
export { startRedis } from './redis.mjs'
export { startRedisCluster } from './redis-cluster.mjs'
export { startRedisSentinel } from './redis-sentinel.mjs'
