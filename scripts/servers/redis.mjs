// @ts-check
import { join } from 'node:path'
import { unprivilegedAccount } from './account.mjs'
import { findBinary } from './find-binary.mjs'
import { foreignRoot } from './foreign/root.mjs'
import { freePort } from './free-port.mjs'
import { askRedis } from './redis-protocol.mjs'
import { requireBinary } from './require-binary.mjs'
import { startServer } from './server.mjs'

/** @type {import('./kind.mjs').Kind} */
export const redis = {
  name: 'redis',
  variable: 'REDIS_URL',
  defaultPort: 6379,
  defaultUrl: 'redis://127.0.0.1:6379',
  debianPackage: 'redis-server',
  locate,
  probe,
  start: startRedis,
}

function locate() {
  const root = foreignRoot('redis')
  return findBinary('redis-server', [], root) ?? findBinary('valkey-server', [], root)
}

/** @param {string} url */
async function probe(url) {
  const [pong, cluster] = await askRedis(url, ['PING'], ['INFO', 'cluster'])
  if (pong !== 'PONG') throw new Error('it does not answer PING')
  if (String(cluster).includes('cluster_enabled:1')) throw new Error('it is a node of a Redis Cluster')
}

/**
 * @param {{ args?: readonly string[] | undefined, files?: Readonly<Record<string, string>> | undefined, port?: number | undefined, env?: Readonly<Record<string, string>> | undefined }} [options]
 *   `args`: command-line arguments, which override ours. `files`: contents by file name, in the server's start directory. `port`: Default: a free one.
 *   `env`: environment variables of the server, besides ours.
 * @returns {Promise<import('./server.mjs').Server>}
 */
export async function startRedis({ args = [], files = {}, port, env = {} } = {}) {
  const binary = requireBinary(redis)
  const own = String(port ?? (await freePort()))
  const url = `redis://127.0.0.1:${own}`

  return await startServer({
    name: 'redis',
    account: unprivilegedAccount('redis'),
    prepare: (directory) =>
      Object.entries(files).map(([name, text]) => ({
        file: '/bin/sh',
        args: ['-c', 'printf "%s" "$1" > "$0"', join(directory, name), text],
      })),
    launch: (directory) => ({
      file: binary,
      // `appendfsync no` passes each write to the kernel before the reply and never delays it, as `everysec` does while
      // a sync is in progress: acknowledged writes survive a SIGKILL.
      args: [
        ...['--port', own, '--bind', '127.0.0.1', '--dir', directory, '--daemonize', 'no'],
        ...['--save', '', '--appendonly', 'yes', '--appendfsync', 'no', ...args],
      ],
      env,
    }),
    ready: async () => {
      await askRedis(url, ['PING'])
      return url
    },
  })
}
