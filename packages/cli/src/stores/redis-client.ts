import { Cluster, Redis } from 'ioredis'
import { type CommandError, usageError } from '../output/errors.ts'
import type { ServiceUrl } from '../settings/urls.ts'

/** Of one server, or of a cluster. */
export type RedisClient = Redis | Cluster

const connectTimeout = 5000
const defaultPort = 6379

/** Connects once, and says why if it cannot; a connection that is lost later is made again. */
export async function connectRedis(url: ServiceUrl): Promise<RedisClient> {
  let connected = false
  const retry = (attempt: number) => (connected ? Math.min(100 * 2 ** Math.min(attempt, 8), 5000) : null)
  const client = url.scheme.endsWith('+cluster') ? clusterOf(url, retry) : serverOf(url, retry)
  let lastError: unknown
  const remember = (error: unknown) => {
    lastError = error
  }
  // What a node of a cluster says is the reason; the cluster itself only says that none of them will do.
  if (client instanceof Cluster) client.on('node error', remember).on('error', () => {})
  else client.on('error', remember)
  try {
    await client.connect()
    // The client itself goes on in database 0 if the one that it was given does not exist.
    if (client instanceof Redis && client.options.db) await client.select(client.options.db)
    await client.ping()
  } catch (error) {
    client.disconnect()
    // It only says that the connection is closed; the event has the reason.
    throw lastError ?? error
  }
  connected = true
  return client
}

function serverOf({ text, hosts, path }: ServiceUrl, retryStrategy: (attempt: number) => number | null): Redis {
  if (hosts.length === 0) throw noHost('redis://host:6379')
  if (hosts.length > 1)
    throw usageError('The URL of a Redis has several hosts.', 'Give one, or write redis+cluster:// in place of redis:// for a cluster.')
  if (!/^\d*$/.test(path)) throw usageError(`A database of Redis is a number, and '${path}' is none.`, 'Write redis://host:6379/0')
  return new Redis(text, { lazyConnect: true, connectTimeout, retryStrategy })
}

function clusterOf(url: ServiceUrl, clusterRetryStrategy: (attempt: number) => number | null): Cluster {
  const { scheme, hosts, user, password, path } = url
  if (path !== '') throw usageError('A cluster of Redis has no databases to choose from.', `Leave out '/${path}' at the end of the URL.`)
  if (hosts.length === 0) throw noHost('redis+cluster://host:6379')
  const nodes = hosts.map((host) => {
    const { hostname, port } = new URL(`any://${host}`)
    return { host: hostname.replace(/^\[|\]$/g, ''), port: port === '' ? defaultPort : Number(port) }
  })
  const secure = scheme.startsWith('rediss')
  return new Cluster(nodes, {
    lazyConnect: true,
    clusterRetryStrategy,
    slotsRefreshTimeout: connectTimeout,
    // Each connection looks up its own: a name that nobody knows must not keep us from the other nodes. And with TLS they must stay what certificates have.
    dnsLookup: (name, found) => found(null, name),
    redisOptions: {
      connectTimeout,
      ...(user !== undefined && { username: user }),
      ...(password !== undefined && { password }),
      ...(secure && { tls: {} }),
    },
  })
}

function noHost(example: string): CommandError {
  return usageError('The URL of Redis names no host.', `Write ${example}`)
}

/** Removes every key that begins so. It walks through all keys, a few hundred at a time. */
export async function removeKeys(client: RedisClient, start: string): Promise<void> {
  const pattern = `${start.replaceAll(/[*?[\]\\]/g, '\\$&')}*`
  for (const server of client instanceof Cluster ? client.nodes('master') : [client]) {
    let cursor = '0'
    do {
      const [next, keys] = await server.scan(cursor, 'MATCH', pattern, 'COUNT', 500)
      // One by one: several that are in different slots are refused by a cluster.
      await Promise.all(keys.map((key) => server.unlink(key)))
      cursor = next
    } while (cursor !== '0')
  }
}
