import { once } from 'node:events'
import { type AddressInfo, connect, createServer } from 'node:net'

/** A proxy to a server that simulates a process that crashes while it reads a large response. */
export interface DyingReader extends AsyncDisposable {
  readonly host: string
  readonly port: number
}

/** Starts a proxy that destroys a connection as soon as the server has sent more than `limit` bytes on it. */
export async function startDyingReader(target: string, limit: number): Promise<DyingReader> {
  const url = new URL(target)
  const ends = new Set<() => void>()
  const server = createServer((client) => {
    const upstream = connect({ host: url.hostname, port: Number(url.port) })
    let received = 0
    const end = () => {
      client.destroy()
      upstream.destroy()
      ends.delete(end)
    }
    ends.add(end)
    for (const socket of [client, upstream]) socket.on('error', () => {}).on('close', end)
    client.on('data', (bytes) => upstream.write(bytes))
    upstream.on('data', (bytes) => {
      received += bytes.byteLength
      if (received > limit) end()
      else client.write(bytes)
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo // address() is an object, because the server listens on a port
  return {
    host: '127.0.0.1',
    port,
    async [Symbol.asyncDispose]() {
      for (const end of [...ends]) end()
      server.close()
      await once(server, 'close')
    },
  }
}
