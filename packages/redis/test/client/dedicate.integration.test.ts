import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import { Cluster, Redis as Ioredis } from 'ioredis'
import { createClient, createCluster } from 'redis'
import { describe, expect, it } from 'vitest'
import { fromIoredis, fromNodeRedis } from '../../src/index.ts'
import { internalsOf } from '../../src/transaction/redis.ts'
import { redisUrl } from '../support/redis-clients.ts'

/** A server that closes every connection. */
async function hangingUp() {
  let count = 0
  const server = createServer((socket) => {
    count += 1
    socket.destroy()
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `redis://127.0.0.1:${(server.address() as AddressInfo).port}`,
    came: once(server, 'connection'),
    count: () => count,
    async [Symbol.asyncDispose]() {
      server.close()
    },
  }
}

describe('a dedicated connection that cannot be made', () => {
  it.each(['node-redis', 'node-redis on a cluster'])('is aborted by the signal, and not retried: %s', async (kind) => {
    await using server = await hangingUp()
    const { url } = server
    const client = kind === 'node-redis' ? createClient({ url }) : createCluster({ rootNodes: [{ url }] })
    const stop = new AbortController()
    const opening = internalsOf(fromNodeRedis(client)).port.dedicate(stop.signal)
    const settled = expect(opening).rejects.toThrow()
    await server.came
    stop.abort()
    // Without the abort the client would retry forever and keep the process alive.
    await settled
  })

  it('is closed if it fails: ioredis with lazyConnect', async () => {
    await using server = await hangingUp()
    const redis = fromIoredis(new Ioredis(server.url, { lazyConnect: true }))
    await expect(internalsOf(redis).port.dedicate()).rejects.toThrow()
    expect(server.count()).toBe(1)
    // A control client that keeps retrying, with the same pauses: in this time the closed client would have reconnected.
    const another = new Ioredis(server.url)
    another.on('error', () => {})
    let attempts = 0
    await new Promise<void>((resolve) => {
      another.on('close', () => {
        attempts += 1
        if (attempts === 5) resolve()
      })
    })
    another.disconnect()
    expect(server.count()).toBe(6)
  })
})

describe('options of ioredis', () => {
  it('enableOfflineQueue: false applies to the client, not to dedicated connections', async () => {
    for (const client of [
      new Ioredis(redisUrl, { enableOfflineQueue: false }),
      new Cluster(process.env['REDIS_CLUSTER_URLS']?.split(',') ?? [], { enableOfflineQueue: false }),
    ]) {
      client.on('error', () => {})
      const own = await internalsOf(fromIoredis(client)).port.dedicate()
      expect(await own.send({ name: 'GET', args: ['none'], keys: [0] })).toBeNull()
      await own.close()
      client.disconnect()
    }
  })

  it('enableAutoPipelining is refused: its callBuffer() changes the command', async () => {
    const client = new Ioredis(redisUrl, { enableAutoPipelining: true, lazyConnect: true })
    expect(() => fromIoredis(client)).toThrow('enableAutoPipelining')
  })
})
