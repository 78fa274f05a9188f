import { once } from 'node:events'
import { connect, createServer, type Socket } from 'node:net'

/** A TCP proxy whose target can change, as a virtual address or a DNS name does in a failover. */
export interface SwitchedProxy extends AsyncDisposable {
  readonly port: number
  /** Cuts all connections. New ones go to this port, or are refused. */
  switchTo(port: number | undefined): void
}

/** `delay`: milliseconds by which each chunk is late, in both directions. It limits no throughput. */
export async function startSwitchedProxy(first: number, { delay = 0 }: { readonly delay?: number } = {}): Promise<SwitchedProxy> {
  let target: number | undefined = first
  const sockets = new Set<Socket>()
  const server = createServer((client) => {
    if (target === undefined) {
      client.destroy()
      return
    }
    const upstream = connect({ host: '127.0.0.1', port: target })
    for (const [from, to] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      sockets.add(from)
      from.setNoDelay(true).on('error', () => {})
      from.on('data', (bytes) => {
        if (delay === 0) to.write(bytes)
        else setTimeout(() => to.write(bytes), delay)
      })
      from.on('close', () => {
        sockets.delete(from)
        to.destroy()
      })
    }
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('The proxy has no port.')
  const cut = () => {
    for (const socket of [...sockets]) socket.destroy()
  }
  return {
    port: address.port,
    switchTo(port) {
      target = port
      cut()
    },
    async [Symbol.asyncDispose]() {
      cut()
      server.close()
      await once(server, 'close')
    },
  }
}
