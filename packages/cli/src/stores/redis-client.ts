import { Cluster, Redis } from 'ioredis'
import { type CommandError, usageError } from '../output/errors.ts'
import type { ServiceUrl } from '../settings/urls.ts'

/** The client of a server, or of a cluster. */
export type RedisClient = Redis | Cluster

const connectTimeout = 5000
const defaultPort = 6379

/** Connects once, and reports why if it cannot; a connection that is lost later is reopened. */
export async function connectRedis(url: ServiceUrl): Promise<RedisClient> {
  let connected = false
  const client = clientOf(url, (attempt) => (connected ? retryDelay(attempt) : null))
  let lastError: unknown
  const remember = (error: unknown) => {
    lastError = error
  }
  // The error of a node has the reason; the error of the cluster only says that no node is usable.
  if (client instanceof Cluster) client.on('node error', remember).on('error', () => {})
  else client.on('error', remember)
  try {
    await client.connect()
    // The client itself continues in database 0 if the requested one does not exist.
    if (client instanceof Redis && client.options.db) await client.select(client.options.db)
    await pingRedis(client)
  } catch (error) {
    client.disconnect()
    // The error only says that the connection is closed; the event has the reason.
    throw lastError ?? error
  }
  connected = true
  return client
}

/** Connects as soon as the server answers; until then, commands wait. */
export function connectLater(url: ServiceUrl): RedisClient {
  const client = clientOf(url, retryDelay)
  // The caller knows that the server does not answer.
  client.on('error', () => {})
  client.connect().catch(() => {})
  return client
}

function clientOf(url: ServiceUrl, retry: (attempt: number) => number | null): RedisClient {
  return url.scheme.endsWith('+cluster') ? clusterOf(url, retry) : serverOf(url, retry)
}

function retryDelay(attempt: number): number {
  return Math.min(100 * 2 ** Math.min(attempt, 8), 5000)
}

/** One round trip. A user that may not PING has nevertheless logged in, and needs no PING for anything else. */
export async function pingRedis(client: RedisClient): Promise<void> {
  await client.ping().catch((error: unknown) => {
    if (!(error instanceof Error && error.message.startsWith('NOPERM'))) throw error
  })
}

function serverOf({ text, hosts, path }: ServiceUrl, retryStrategy: (attempt: number) => number | null): Redis {
  if (hosts.length === 0) throw noHost('redis://host:6379')
  if (hosts.length > 1)
    throw usageError('The Redis URL has several hosts.', 'Use one host, or redis+cluster:// instead of redis:// for a cluster.')
  if (!/^\d*$/.test(path)) throw usageError(`The database in a Redis URL must be a number; it is '${path}'.`, 'Use redis://host:6379/0')
  return new Redis(text, { lazyConnect: true, connectTimeout, retryStrategy })
}

function clusterOf(url: ServiceUrl, clusterRetryStrategy: (attempt: number) => number | null): Cluster {
  const { scheme, hosts, user, password, path } = url
  if (path !== '') throw usageError('A Redis Cluster has no numbered databases.', `Remove '/${path}' from the end of the URL.`)
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
    // Each connection resolves its own host name: one unknown name must not prevent access to the other nodes. And with TLS the names must match the
    // certificates.
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
  return usageError('The Redis URL has no host.', `Use ${example}`)
}

/** Removes every key with this prefix. It scans all keys, a few hundred at a time. */
export async function removeKeys(client: RedisClient, start: string): Promise<void> {
  const pattern = `${start.replaceAll(/[*?[\]\\]/g, '\\$&')}*`
  for (const server of client instanceof Cluster ? client.nodes('master') : [client]) {
    let cursor = '0'
    do {
      const [next, keys] = await server.scan(cursor, 'MATCH', pattern, 'COUNT', 500)
      // One by one: a cluster rejects several keys in different slots.
      await Promise.all(keys.map((key) => server.unlink(key)))
      cursor = next
    } while (cursor !== '0')
  }
}
