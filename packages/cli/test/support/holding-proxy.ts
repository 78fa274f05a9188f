import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'

export interface HoldingProxy extends AsyncDisposable {
  readonly url: string
  /** Whether the server has said something that did not get through. */
  readonly isHolding: boolean
  /** From now on nothing that the server says gets through. */
  hold(): void
  /** It gets through, with what was held. */
  release(): void
}

/** Stands before a server, and can keep its answers back. */
export async function startHoldingProxy(target: string): Promise<HoldingProxy> {
  const url = new URL(target)
  const address = { host: url.hostname, port: Number(url.port) }
  const pairs = new Set<{ readonly client: Socket; readonly behind: Socket }>()
  let holding = false
  const server = createServer((client) => {
    const behind = connect(address)
    for (const socket of [client, behind]) {
      socket.on('error', () => {})
      socket.on('close', () => {
        client.destroy()
        behind.destroy()
      })
    }
    client.pipe(behind)
    if (!holding) behind.pipe(client)
    pairs.add({ client, behind })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  url.hostname = '127.0.0.1'
  url.port = String((server.address() as AddressInfo).port)
  return {
    url: url.href,
    get isHolding() {
      return [...pairs].some(({ client, behind }) => behind.bytesRead > client.bytesWritten)
    },
    hold() {
      holding = true
      for (const { client, behind } of pairs) behind.unpipe(client)
    },
    release() {
      holding = false
      for (const { client, behind } of pairs) behind.pipe(client)
    },
    async [Symbol.asyncDispose]() {
      for (const { client, behind } of pairs) for (const socket of [client, behind]) socket.destroy()
      const closed = once(server, 'close')
      server.close()
      await closed
    },
  }
}
