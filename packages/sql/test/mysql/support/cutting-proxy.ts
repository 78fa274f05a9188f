import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { mariadbUrl } from './mysql-world.ts'

export interface CuttingProxy extends AsyncDisposable {
  readonly port: number
  /** From now on, a connection is cut when its client sends this text, in any case: before the server gets it, or when the server has answered. */
  cutAt(text: string, when: 'before' | 'after'): void
}

/** Stands between a pool and the server, on a port of its own. */
export async function openCuttingProxy(): Promise<CuttingProxy> {
  const { hostname, port } = new URL(mariadbUrl)
  const sockets = new Set<Socket>()
  let rule: { readonly text: string; readonly when: 'before' | 'after' } | undefined
  const server = createServer((client) => {
    const upstream = connect(Number(port), hostname)
    let cut = false
    for (const socket of [client, upstream]) {
      sockets.add(socket)
      socket.on('error', () => {})
      socket.on('close', () => {
        client.destroy()
        upstream.destroy()
      })
    }
    client.on('data', (data) => {
      if (rule !== undefined && data.toString('latin1').toUpperCase().includes(rule.text.toUpperCase())) {
        if (rule.when === 'before') {
          client.destroy()
          return
        }
        cut = true
      }
      upstream.write(data)
    })
    upstream.on('data', (data) => {
      if (cut) client.destroy()
      else client.write(data)
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    port: (server.address() as AddressInfo).port,
    cutAt(text, when) {
      rule = { text, when }
    },
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy()
      server.close()
      await once(server, 'close')
    },
  }
}
