import { once } from 'node:events'
import { createServer, type IncomingHttpHeaders } from 'node:http'
import { type AddressInfo, createServer as createTcpServer, type Socket } from 'node:net'
import { text } from 'node:stream/consumers'

/** One request of an exporter. */
interface Export {
  readonly path: string
  readonly headers: IncomingHttpHeaders
  /** OTLP as JSON. */
  readonly body: string
}

/** A server that receives what an OpenTelemetry collector would. */
export interface Collector extends AsyncDisposable {
  readonly url: string
  readonly exports: readonly Export[]
  /** The status of the next answers. */
  status: number
  /** Resolves when there is an export that is so. */
  received(isSo: (one: Export) => boolean): Promise<Export>
}

export async function startCollector(): Promise<Collector> {
  const exports: Export[] = []
  let waiting: (() => void)[] = []
  const server = createServer(async (request, response) => {
    exports.push({ path: request.url ?? '', headers: request.headers, body: await text(request) })
    response.writeHead(collector.status, { 'content-type': 'application/json' }).end('{}')
    for (const wake of waiting) wake()
    waiting = []
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const collector: Collector = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    exports,
    status: 200,
    async received(isSo) {
      for (;;) {
        const found = exports.find(isSo)
        if (found !== undefined) return found
        await new Promise<void>((resolve) => waiting.push(resolve))
      }
    },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
  return collector
}

/** A server that accepts connections and never answers. */
export async function startMuteServer(): Promise<{ readonly url: string } & AsyncDisposable> {
  const sockets: Socket[] = []
  const server = createTcpServer((socket) => {
    sockets.push(socket)
    socket.on('error', () => {})
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy()
      server.close()
      await once(server, 'close')
    },
  }
}
