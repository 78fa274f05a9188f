/** `src/http/server.ts`, for every project that listens without Fastify. */
export const httpServer = `import { once } from 'node:events'
import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'

export async function listen(handler: RequestListener, { port, host = '127.0.0.1' }: { port: number; host?: string }) {
  const server = createServer(handler).listen(port, host)
  await once(server, 'listening')
  return {
    url: \`http://\${host}:\${(server.address() as AddressInfo).port}\`,
    /** Answers open requests first. */
    async close() {
      const closed = once(server, 'close')
      server.close()
      await closed
    },
  }
}
`
