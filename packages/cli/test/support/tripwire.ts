import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'

export interface Tripwire extends AsyncDisposable {
  readonly url: string
  /** Resolves when so many pieces have come from clients. From then on nothing more gets through. */
  readonly reached: Promise<void>
  /** All gets through again, with what was held. */
  release(): void
}

/** Stands before a server, and stops a client in the middle of what it does: at any piece that it sends. */
export async function startTripwire(target: string, at: number): Promise<Tripwire> {
  const url = new URL(target)
  const address = { host: url.hostname, port: Number(url.port) }
  const sockets = new Set<Socket>()
  const held: (() => void)[] = []
  let [count, isHolding, isReleased] = [0, false, false]
  let reach = () => {}
  const reached = new Promise<void>((resolve) => {
    reach = resolve
  })
  const server = createServer((client) => {
    const behind = connect(address)
    for (const socket of [client, behind]) {
      sockets.add(socket)
      socket.on('error', () => {})
      socket.on('close', () => {
        client.destroy()
        behind.destroy()
      })
    }
    behind.pipe(client)
    client.on('data', (data) => {
      count += 1
      if (count === at && !isReleased) {
        isHolding = true
        reach()
      }
      if (isHolding) held.push(() => behind.write(data))
      else behind.write(data)
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  url.hostname = '127.0.0.1'
  url.port = String((server.address() as AddressInfo).port)
  return {
    url: url.href,
    reached,
    release() {
      ;[isHolding, isReleased] = [false, true]
      for (const pass of held.splice(0)) pass()
    },
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy()
      const closed = once(server, 'close')
      server.close()
      await closed
    },
  }
}
