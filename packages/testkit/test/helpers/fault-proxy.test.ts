import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { setImmediate } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { type FaultProxy, startFaultProxy } from '../../src/helpers/fault-proxy.ts'
import { deferred } from '../../src/helpers/tracked-message.ts'

describe('the fault proxy', () => {
  it('forwards everything, in order, however large', async () => {
    await using world = await openWorld()
    const client = await world.connect()
    const large = Buffer.alloc(3_000_000, 'abc')

    client.write(large)

    expect((await received(client, large.length)).equals(large)).toBe(true)
    expect(world.proxy.connections).toBe(1)
  })

  it('has the URL of the server, with its own host and port', async () => {
    await using world = await openWorld()
    const { port } = world.proxy

    expect(world.proxy.url).toBe(`echo://user:secret@127.0.0.1:${port}/path?a=1`)
  })

  it('cuts all connections, and accepts new ones', async () => {
    await using world = await openWorld()
    const client = await world.connect()

    world.proxy.cut()
    await once(client, 'close')

    expect(world.proxy.connections).toBe(0)
    expect(await echo(await world.connect(), 'again')).toBe('again')
  })

  it('refuses connections until it is configured to accept them again', async () => {
    await using world = await openWorld()

    world.proxy.refuse(true)
    await once(await world.connect(), 'close')
    world.proxy.refuse(false)

    expect(await echo(await world.connect(), 'again')).toBe('again')
    expect(world.server.seen()).toBe('again')
  })

  it('passes the connection of each chunk to the callback', async () => {
    await using world = await openWorld()
    const judged: string[] = []
    world.proxy.judge((bytes, connection) => {
      judged.push(`${bytes.toString()} by ${connection}`)
      return 'pass'
    })
    const clients = [await world.connect(), await world.connect()] as const

    await echo(clients[0], 'a')
    await echo(clients[1], 'b')
    await echo(clients[0], 'c')

    expect(judged).toEqual(['a by 1', 'b by 2', 'c by 1'])
  })

  it('drops data from clients, and leaves the connection open', async () => {
    await using world = await openWorld()
    const client = await world.connect()
    await echo(client, 'before')

    world.proxy.swallow()
    client.write('lost')
    const other = await world.connect()
    await echo(other, 'other')

    expect(world.server.seen()).toBe('beforeother')
    expect(client.destroyed).toBe(false)
  })

  it('drops everything from one chunk on, on its connection only', async () => {
    await using world = await openWorld()
    const client = await world.connect()
    world.proxy.judge((bytes) => (bytes.includes('bad') ? 'swallow' : 'pass'))
    await echo(client, 'before')

    client.write('bad')
    const other = await world.connect()
    await echo(other, 'other')
    client.write('after')
    await echo(other, 'again')

    expect(world.server.seen()).toBe('beforeotheragain')
    expect(client.destroyed).toBe(false)
  })

  it('holds data of the server until it is released', async () => {
    await using world = await openWorld()
    const client = await world.connect()
    await echo(client, 'before')

    world.proxy.hold()
    client.write('held')
    await world.server.has('beforeheld')
    await roundTripElsewhere()
    expect(client.bytesRead).toBe('before'.length)
    world.proxy.release()

    expect((await received(client, 4)).toString()).toBe('held')
  })

  it('holds data of the server on a connection that is opened in the meantime', async () => {
    await using world = await openWorld()
    world.proxy.hold()
    const client = await world.connect()
    client.write('held')
    await world.server.has('held')
    await roundTripElsewhere()
    expect(client.bytesRead).toBe(0)

    world.proxy.release()

    expect((await received(client, 4)).toString()).toBe('held')
    expect(await echo(await world.connect(), 'free')).toBe('free')
  })

  it('holds a chunk and those after it, on its connection only, and forwards them in order', async () => {
    await using world = await openWorld()
    const client = await world.connect()
    const free = deferred()
    const judged: string[] = []
    world.proxy.judge((bytes) => {
      judged.push(bytes.toString())
      return bytes.includes('first') ? { held: free.promise } : 'pass'
    })

    client.write('first ')
    await until(() => judged.length === 1)
    client.write('second ')
    const other = await world.connect()
    await echo(other, 'other ')
    expect(world.server.seen()).toBe('other ')
    free.resolve()

    expect((await received(client, 13)).toString()).toBe('first second ')
    expect(judged).toEqual(['first ', 'other ', 'second '])
  })

  it('drops a held chunk when its client closes', async () => {
    await using world = await openWorld()
    const client = await world.connect()
    const free = deferred()
    world.proxy.judge((bytes) => (bytes.includes('held') ? { held: free.promise } : 'pass'))

    client.end('held')
    await until(() => world.proxy.connections === 0)
    free.resolve()

    await echo(await world.connect(), 'other')
    expect(world.server.seen()).toBe('other')
  })

  it('cuts before a chunk reaches the server', async () => {
    await using world = await openWorld()
    const client = await world.connect()
    world.proxy.judge((bytes) => (bytes.includes('bad') ? 'cut before' : 'pass'))

    expect(await echo(client, 'good')).toBe('good')
    client.write('bad')
    await once(client, 'close')

    expect(world.server.seen()).toBe('good')
  })

  it('cuts after the server has answered, without forwarding the answer', async () => {
    await using world = await openWorld()
    const client = await world.connect()
    world.proxy.judge(() => 'cut after')

    client.write('done')
    const answered = received(client, 1)
    await once(client, 'close')

    await expect(answered).rejects.toThrow('closed')
    expect(world.server.seen()).toBe('done')
  })

  it('delivers a chunk late, when its client has already closed', async () => {
    await using world = await openWorld()
    const client = await world.connect()
    const later = deferred<void>()
    world.proxy.judge(() => ({ late: later.promise }))

    client.write('late')
    await once(client, 'close')
    expect(world.server.seen()).toBe('')
    later.resolve()
    await world.proxy.idle()

    expect(world.server.seen()).toBe('late')
  })

  it('delays chunks and keeps their order', async () => {
    await using world = await openWorld()
    const client = await world.connect()
    world.proxy.slow({ delay: 5, bytesPerSecond: 100_000 })

    client.write('one ')
    client.write('two ')
    const first = (await received(client, 8)).toString()
    world.proxy.slow()

    expect(first).toBe('one two ')
    expect(await echo(client, 'three')).toBe('three')
  })
})

interface EchoWorld extends AsyncDisposable {
  readonly proxy: FaultProxy
  readonly server: { seen(): string; has(text: string): Promise<void> }
  connect(): Promise<Socket>
}

/** An echo server behind the proxy. */
async function openWorld(): Promise<EchoWorld> {
  let seen = ''
  const arrivals = new Set<() => void>()
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    sockets.add(socket)
    socket.on('error', () => {})
    socket.on('data', (bytes) => {
      seen += bytes.length < 100 ? bytes.toString() : ''
      for (const arrived of arrivals) arrived()
      socket.write(bytes)
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const proxy = await startFaultProxy(`echo://user:secret@127.0.0.1:${(server.address() as AddressInfo).port}/path?a=1`)
  return {
    proxy,
    server: {
      seen: () => seen,
      async has(text) {
        while (seen !== text) await new Promise<void>((resolve) => arrivals.add(resolve))
      },
    },
    async connect() {
      const client = connect(proxy.port, '127.0.0.1')
      client.on('error', () => {})
      sockets.add(client)
      await once(client, 'connect')
      return client
    },
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy()
      await proxy[Symbol.asyncDispose]()
      server.close()
    },
  }
}

/** A round trip on another connection: data sent before it has arrived by then, unless the proxy holds it. */
async function roundTripElsewhere(): Promise<void> {
  await using world = await openWorld()
  await echo(await world.connect(), 'there and back')
}

async function until(isSo: () => boolean): Promise<void> {
  while (!isSo()) await setImmediate()
}

async function echo(client: Socket, text: string): Promise<string> {
  client.write(text)
  return (await received(client, text.length)).toString()
}

/** Resolves to the next `count` bytes. */
function received(client: Socket, count: number): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const pieces: Buffer[] = []
    const onData = (bytes: Buffer) => {
      pieces.push(bytes)
      if (Buffer.concat(pieces).length < count) return
      client.off('data', onData)
      client.pause()
      resolve(Buffer.concat(pieces))
    }
    client.once('close', () => reject(new Error('The connection was closed.')))
    client.on('data', onData)
    client.resume()
  })
}
