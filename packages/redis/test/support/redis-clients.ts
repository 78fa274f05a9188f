import { Cluster as Cluster6, Redis as Redis6 } from 'ioredis'
import { Cluster as Cluster5, Redis as Redis5 } from 'ioredis-5'
import { createClient, createCluster } from 'redis'
import { fromIoredis, fromNodeRedis, type IoredisClient, type Redis, type RedisOptions } from '../../src/index.ts'

/** A client opened by a test, and the `Redis` that uses it. */
export interface TestRedis extends AsyncDisposable {
  readonly redis: Redis
  /** Sends any command directly, as redis-cli would, bypassing Ackord. */
  command(...words: (string | Buffer)[]): Promise<unknown>
}

export interface ClientSettings {
  readonly url?: string | undefined
  readonly keyPrefix?: string | undefined
  readonly options?: RedisOptions | undefined
}

export interface RedisKind {
  readonly name: string
  readonly cluster: boolean
  open(settings?: ClientSettings): Promise<TestRedis>
}

export const redisUrl: string = process.env['REDIS_URL'] ?? 'redis://127.0.0.1:6379'

/** The nodes of the cluster that `scripts/services` runs. */
function clusterUrls(url: string | undefined): string[] {
  const urls = url ?? process.env['REDIS_CLUSTER_URLS']
  if (urls === undefined)
    throw new Error('REDIS_CLUSTER_URLS is not set. Run the tests by `make test`, or inside of `scripts/services run --`.')
  return urls.split(',')
}

type Plain = Pick<IoredisClient, 'call' | 'disconnect' | 'on'>

/** `plain` is a client without the key prefix. */
function testRedis(redis: Redis, plain: Plain, close: () => void): TestRedis {
  // A cut connection is reported by the failing commands; without a listener the client also prints it.
  plain.on('error', () => {})
  return {
    redis,
    command: async (name, ...args) => await plain.call(String(name), ...args),
    async [Symbol.asyncDispose]() {
      close()
      plain.disconnect()
    },
  }
}

function ioredisKind(name: string, cluster: boolean, connect: (url: string | undefined, keyPrefix: string) => IoredisClient): RedisKind {
  return {
    name,
    cluster,
    async open({ url, keyPrefix = '', options } = {}) {
      const client = connect(url, keyPrefix)
      client.on('error', () => {})
      return testRedis(fromIoredis(client, options), connect(url, ''), () => client.disconnect())
    },
  }
}

const nodeRedisKind: RedisKind = {
  name: 'node-redis',
  cluster: false,
  async open({ url = redisUrl, keyPrefix, options } = {}) {
    const client = createClient({ url, ...(keyPrefix === undefined ? {} : { keyPrefix }) })
    client.on('error', () => {})
    await client.connect()
    return testRedis(fromNodeRedis(client, options), new Redis6(url), () => client.destroy())
  },
}

const nodeRedisClusterKind: RedisKind = {
  name: 'node-redis on a cluster',
  cluster: true,
  async open({ url, keyPrefix, options } = {}) {
    const urls = clusterUrls(url)
    const client = createCluster({ rootNodes: urls.map((node) => ({ url: node })), ...(keyPrefix === undefined ? {} : { keyPrefix }) })
    client.on('error', () => {})
    await client.connect()
    return testRedis(fromNodeRedis(client, options), new Cluster6(urls), () => client.destroy())
  },
}

/** Every client that Ackord supports, on a single server and on a cluster. */
export const redisKinds: readonly RedisKind[] = [
  ioredisKind('ioredis 6', false, (url = redisUrl, keyPrefix) => new Redis6(url, { keyPrefix })),
  ioredisKind('ioredis 5', false, (url = redisUrl, keyPrefix) => new Redis5(url, { keyPrefix })),
  nodeRedisKind,
  ioredisKind('ioredis 6 on a cluster', true, (url, keyPrefix) => new Cluster6(clusterUrls(url), { keyPrefix })),
  ioredisKind('ioredis 5 on a cluster', true, (url, keyPrefix) => new Cluster5(clusterUrls(url), { keyPrefix })),
  nodeRedisClusterKind,
]

/**
 * One client on a single server and one on a cluster, for suites of code built on the port: their scripts do not depend on the client, and the
 * tests of the port run on all clients.
 */
export const typicalKinds: readonly RedisKind[] = redisKinds.filter(({ name }) => ['ioredis 6', 'node-redis on a cluster'].includes(name))
