// @ts-check
import { join } from 'node:path'
import { unprivilegedAccount } from './account.mjs'
import { freePort } from './free-port.mjs'
import { redis } from './redis.mjs'
import { askRedis } from './redis-protocol.mjs'
import { requireBinary } from './require-binary.mjs'
import { startServer } from './server.mjs'

/**
 * One Sentinel, with a quorum of one for a failover. It names the monitored master `main`, and considers it down after half a second.
 *
 * @param {{ master: number }} options the port of the master
 * @returns {Promise<import('./server.mjs').Server>}
 */
export async function startRedisSentinel({ master }) {
  const binary = requireBinary(redis)
  const own = String(await freePort())
  const url = `redis://127.0.0.1:${own}`
  // Sentinel writes its state into this file, so it must not be shared.
  const settings = [
    `port ${own}`,
    'bind 127.0.0.1',
    `sentinel monitor main 127.0.0.1 ${master} 1`,
    'sentinel down-after-milliseconds main 500',
    'sentinel failover-timeout main 3000',
  ]

  return await startServer({
    name: 'redis-sentinel',
    kind: 'redis',
    account: unprivilegedAccount('redis'),
    prepare: (directory) => [
      {
        file: '/bin/sh',
        args: ['-c', 'printf "%s\\n" "$@" > "$0"', join(directory, 'sentinel.conf'), `dir ${directory}`, ...settings],
      },
    ],
    launch: (directory) => ({ file: binary, args: [join(directory, 'sentinel.conf'), '--sentinel', '--daemonize', 'no'] }),
    ready: async () => {
      const [found] = await askRedis(url, ['SENTINEL', 'REPLICAS', 'main'])
      if (!Array.isArray(found) || found.length === 0) throw new Error('it has not found the replica yet')
      return url
    },
  })
}
