import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'

/** A proxy for PostgreSQL that behaves like a pooler in transaction mode: LISTEN is accepted, and no notification is ever delivered. */
export async function startDeafProxy(target: string): Promise<{ readonly url: string } & AsyncDisposable> {
  const url = new URL(target)
  const address = { host: url.hostname, port: Number(url.port || 5432) }
  const sockets = new Set<Socket>()
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
    client.pipe(behind)
    const pass = withoutNotifications((data) => client.write(data))
    behind.on('data', pass)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  url.hostname = '127.0.0.1'
  url.port = String((server.address() as AddressInfo).port)
  return {
    url: url.href,
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy()
      const closed = once(server, 'close')
      server.close()
      await closed
    },
  }
}

/** A message of the server starts with a letter and a length; a notification has the letter A. */
function withoutNotifications(pass: (data: Buffer) => void): (data: Buffer) => void {
  let rest: Buffer = Buffer.alloc(0)
  return (data) => {
    rest = Buffer.concat([rest, data])
    while (rest.length >= 5) {
      const size = 1 + rest.readUInt32BE(1)
      if (rest.length < size) return
      if (rest[0] !== 'A'.charCodeAt(0)) pass(rest.subarray(0, size))
      rest = rest.subarray(size)
    }
  }
}
