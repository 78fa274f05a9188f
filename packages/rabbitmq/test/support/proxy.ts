import { once } from 'node:events'
import { connect, createServer, type Socket } from 'node:net'

/** A way to the server that a test can cut. */
export interface Proxy extends AsyncDisposable {
  readonly url: string
  /** How many connections go through it. */
  readonly connections: number
  /** Ends all connections at once, without a word. */
  cut(): void
  /** What the client sends does not arrive any more, on the present connections; it is not told. */
  swallow(): void
  /** What the server sends is kept, on the present connections, until it is released. */
  hold(): void
  release(): void
  /** New connections are refused from now on, or taken again. */
  refuse(refused: boolean): void
}

export async function startProxy(target: string): Promise<Proxy> {
  const { hostname, port, username, password } = new URL(target)
  const pairs = new Map<Socket, Socket>()
  let refused = false
  const server = createServer((client) => {
    client.on('error', () => {})
    if (refused) {
      client.destroy()
      return
    }
    const upstream = connect({ host: hostname, port: Number(port) })
    pairs.set(client, upstream)
    const end = () => {
      pairs.delete(client)
      client.destroy()
      upstream.destroy()
    }
    for (const socket of [client, upstream]) socket.on('error', end).on('close', end)
    client.pipe(upstream).pipe(client)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('The proxy has no port.')

  const cut = () => {
    for (const client of [...pairs.keys()]) client.destroy()
  }
  return {
    url: `amqp://${username}:${password}@127.0.0.1:${address.port}`,
    get connections() {
      return pairs.size
    },
    cut,
    swallow() {
      for (const client of pairs.keys()) {
        client.unpipe()
        client.resume()
      }
    },
    hold() {
      for (const [client, upstream] of pairs) {
        upstream.unpipe(client)
        upstream.pause()
      }
    },
    release() {
      for (const [client, upstream] of pairs) upstream.pipe(client)
    },
    refuse(now) {
      refused = now
    },
    async [Symbol.asyncDispose]() {
      cut()
      server.close()
      await once(server, 'close')
    },
  }
}
