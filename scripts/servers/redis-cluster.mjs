// @ts-check
import { freePort } from './free-port.mjs'
import { redis, startRedis } from './redis.mjs'
import { askRedis } from './redis-protocol.mjs'
import { waitUntil } from './wait-until.mjs'

/** @typedef {import('./server.mjs').Server & { readonly nodes: readonly import('./server.mjs').Server[] }} Cluster */

const slots = 16_384
const busOffset = 10_000

/**
 * No default port: a cluster is always started by us, unless the environment names one.
 *
 * @type {import('./kind.mjs').Kind}
 */
export const redisCluster = {
  name: 'redis-cluster',
  variable: 'REDIS_CLUSTER_URLS',
  defaultPort: 6379,
  defaultUrl: undefined,
  debianPackage: redis.debianPackage,
  locate: redis.locate,
  probe,
  start: startRedisCluster,
}

/** @param {string} url of one node */
async function probe(url) {
  const [information] = await askRedis(url, ['CLUSTER', 'INFO'])
  if (!String(information).includes('cluster_state:ok')) throw new Error('its cluster is not in the state "ok"')
}

/**
 * Masters without replicas, each with its share of the slots, joined over the protocol, so that Redis 6 without
 * redis-cli suffices. `url` lists all nodes, `port` and `pid` are those of the first one; `kill` and `restart` act on all.
 *
 * @param {{ nodes?: number | undefined }} [options] Default: 3.
 * @returns {Promise<Cluster>}
 */
export async function startRedisCluster({ nodes: size = 3 } = {}) {
  const starts = await Promise.allSettled(Array.from({ length: size }, startNode))
  const nodes = starts.flatMap((start) => (start.status === 'fulfilled' ? [start.value] : []))
  const stop = async () => {
    await Promise.all(nodes.map((node) => node.stop()))
  }
  try {
    for (const start of starts) if (start.status === 'rejected') throw start.reason
    await join(nodes)
  } catch (error) {
    await stop()
    throw error
  }
  const [first] = nodes
  if (first === undefined) throw new RangeError('a Redis Cluster needs at least one node')

  return {
    name: 'redis-cluster',
    nodes,
    url: nodes.map((node) => node.url).join(','),
    port: first.port,
    get pid() {
      return first.pid
    },
    get exited() {
      return Promise.race(nodes.map((node) => node.exited))
    },
    stop,
    async kill(signal) {
      await Promise.all(nodes.map((node) => node.kill(signal)))
    },
    async restart() {
      await Promise.all(nodes.map((node) => node.restart()))
      await agree(nodes)
    },
    [Symbol.asyncDispose]: stop,
  }
}

async function startNode() {
  const cluster = ['--cluster-enabled', 'yes', '--cluster-config-file', 'nodes.conf', '--cluster-node-timeout', '5000']
  return await startRedis({ port: await freePort({ alsoAt: busOffset }), args: cluster })
}

/** @param {import('./server.mjs').Server[]} nodes */
async function join(nodes) {
  await Promise.all(
    nodes.map(async (node, index) => {
      const from = Math.floor((index * slots) / nodes.length)
      const to = Math.floor(((index + 1) * slots) / nodes.length)
      const share = Array.from({ length: to - from }, (_, offset) => from + offset)
      // Different epochs from the start avoid an election between the nodes.
      await askRedis(node.url, ['CLUSTER', 'SET-CONFIG-EPOCH', index + 1], ['CLUSTER', 'ADDSLOTS', ...share])
    }),
  )
  const meetings = nodes.map((node) => ['CLUSTER', 'MEET', '127.0.0.1', node.port])
  await Promise.all(nodes.map((node, index) => askRedis(node.url, ...meetings.slice(index + 1))))
  await agree(nodes)
}

/** @param {readonly import('./server.mjs').Server[]} nodes */
async function agree(nodes) {
  const isWhole = async () => {
    const answers = await Promise.all(nodes.map((node) => askRedis(node.url, ['CLUSTER', 'INFO'])))
    return answers.every(([text]) => {
      const state = String(text)
      return state.includes('cluster_state:ok') && state.includes(`cluster_known_nodes:${nodes.length}\r`)
    })
  }
  await waitUntil('agreement of the Redis Cluster', isWhole, { timeout: 30_000 })
}
