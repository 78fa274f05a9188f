import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket, connect as tcpConnect } from 'node:net'

/**
 * What becomes of bytes from a client.
 * - `pass`: they reach the server, and its answer the client
 * - `cut before`: the connection is cut, and they never reach the server
 * - `cut after`: they reach the server, which carries them out; then the connection is cut, without an answer
 * - `late`: the connection is cut, and they reach the server when the promise resolves
 */
export type Fault = 'pass' | 'cut before' | 'cut after' | { readonly late: Promise<void> }

export interface FaultProxy extends AsyncDisposable {
  readonly url: string
  /** Resolves when no bytes are on their way to the server any more. */
  idle(): Promise<void>
}

/** A way to the server on which connections are lost in the middle. `decide` is asked for each piece that a client sends. */
export async function startFaultProxy(url: string, decide: (bytes: Buffer) => Fault): Promise<FaultProxy> {
  const { hostname, port } = new URL(url)
  const sockets = new Set<Socket>()
  const late = new Set<Promise<void>>()

  const server = createServer((client) => {
    const upstream = tcpConnect(Number(port), hostname)
    for (const socket of [client, upstream]) {
      socket.setNoDelay(true)
      sockets.add(socket)
      socket.on('error', () => {})
      socket.on('close', () => sockets.delete(socket))
    }
    let fault: 'none' | 'swallow' | 'wait' | 'gone' = 'none'
    const cut = () => {
      fault = 'gone'
      client.destroy()
      upstream.destroy()
    }
    upstream.on('data', (bytes) => {
      if (fault === 'none') client.write(bytes)
      // Those that come before the late bytes are answers to others.
      else if (fault !== 'wait') cut()
    })
    upstream.on('close', () => client.destroy())
    client.on('close', () => fault === 'none' && upstream.destroy())
    client.on('data', (bytes) => {
      if (fault !== 'none') return
      const decided = decide(bytes)
      if (decided === 'pass') upstream.write(bytes)
      else if (decided === 'cut before') cut()
      else if (decided === 'cut after') {
        fault = 'swallow'
        upstream.write(bytes)
      } else {
        fault = 'wait'
        client.destroy()
        const arrival = decided.late.then(async () => {
          if (upstream.destroyed) return
          fault = 'swallow'
          const answered = once(upstream, 'close')
          upstream.write(bytes)
          await answered
        })
        late.add(arrival)
        void arrival.finally(() => late.delete(arrival))
      }
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')

  return {
    url: `redis://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async idle() {
      await Promise.all(late)
    },
    async [Symbol.asyncDispose]() {
      server.close()
      for (const socket of sockets) socket.destroy()
    },
  }
}
