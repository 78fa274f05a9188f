import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { silentLogger } from '@ackord/core'
import { httpPublisher, httpSource, toNodeHandler } from '@ackord/http'
import type { CarrierKind } from './carrier.ts'

/** HTTP has no broker in between: the server itself is stopped, with all requests in flight. */
export const httpCarrier: CarrierKind = {
  name: 'HTTP',
  fault: 'loses its server',
  async open() {
    const source = httpSource({ logger: silentLogger, verify: secret })
    const listen = async (port: number): Promise<Server> => {
      const server = createServer(toNodeHandler(source.handler))
      server.listen(port, '127.0.0.1')
      await once(server, 'listening')
      return server
    }
    let server = await listen(0)
    const { port } = server.address() as AddressInfo
    const publisher = httpPublisher({ url: `http://127.0.0.1:${port}/events`, sign: secret })
    const close = async () => {
      const closed = once(server, 'close')
      server.close()
      server.closeAllConnections()
      await closed
    }
    return {
      publisher,
      source,
      async crash() {
        await close()
        server = await listen(port)
      },
      async [Symbol.asyncDispose]() {
        await source[Symbol.asyncDispose]()
        await publisher[Symbol.asyncDispose]?.()
        await close()
      },
    }
  },
}

const secret = `whsec_${Buffer.alloc(32, 7).toString('base64')}`
