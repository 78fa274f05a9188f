import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

export interface ReceivedRequest {
  readonly method: string
  /** With the query. */
  readonly path: string
  readonly headers: IncomingMessage['headers']
  readonly body: Buffer
}

export interface HttpServer extends AsyncDisposable {
  readonly url: string
  /** All requests so far. */
  readonly requests: readonly ReceivedRequest[]
}

/** A server on a free port, for answers that an emulator never gives. The handler need not answer. */
export async function startHttpServer(
  handle: (request: ReceivedRequest, response: ServerResponse) => void | Promise<void>,
): Promise<HttpServer> {
  const requests: ReceivedRequest[] = []
  const errors: unknown[] = []
  const answer = async (incoming: IncomingMessage, response: ServerResponse) => {
    const chunks: Buffer[] = []
    for await (const chunk of incoming) chunks.push(chunk)
    const { method = '', url = '', headers } = incoming
    const request = { method, path: url, headers, body: Buffer.concat(chunks) }
    requests.push(request)
    await handle(request, response)
  }
  const server = createServer((incoming, response) => {
    answer(incoming, response).catch((error: unknown) => {
      errors.push(error)
      response.destroy()
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
      if (errors.length > 0) throw new AggregateError(errors, 'The handler of a test server failed.')
    },
  }
}
