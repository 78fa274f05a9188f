import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import { Redis as Ioredis } from 'ioredis'
import { createClient, createCluster } from 'redis'
import { describe, expect, it } from 'vitest'
import { fromIoredis, fromNodeRedis } from '../src/index.ts'
import { internalsOf } from '../src/redis.ts'

/** A server that hangs up on everybody, and tells of each who came. */
async function hangingUp(): Promise<AsyncDisposable & { readonly url: string; readonly came: Promise<unknown> }> {
  const server = createServer((socket) => socket.destroy())
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `redis://127.0.0.1:${(server.address() as AddressInfo).port}`,
    came: once(server, 'connection'),
    async [Symbol.asyncDispose]() {
      server.close()
    },
  }
}

describe('a connection of its own that does not come about', () => {
  it.each(['node-redis', 'node-redis on a cluster'])('is given up with the signal, and not tried for ever: %s', async (kind) => {
    await using server = await hangingUp()
    const { url } = server
    const client = kind === 'node-redis' ? createClient({ url }) : createCluster({ rootNodes: [{ url }] })
    const stop = new AbortController()
    const opening = internalsOf(fromNodeRedis(client)).port.dedicate(stop.signal)
    const settled = expect(opening).rejects.toThrow()
    await server.came
    stop.abort()
    // Before that it would go on for ever, and the process with it.
    await settled
  })

  it('is closed where it fails: ioredis with lazyConnect', async () => {
    await using server = await hangingUp()
    const client = new Ioredis(server.url, { lazyConnect: true })
    const duplicate = client.duplicate.bind(client)
    const made: Ioredis[] = []
    client.duplicate = () => {
      const own = duplicate()
      made.push(own)
      return own
    }
    await expect(internalsOf(fromIoredis(client)).port.dedicate()).rejects.toThrow()
    await expect.poll(() => made.map(({ status }) => status)).toEqual(['end'])
  })
})
