// @ts-check
// The servers of Bun and Deno for a function from a Request to a Response.
import { once } from 'node:events'
import { createServer } from 'node:http'

/** @typedef {(request: Request) => Promise<Response>} FetchHandler */
/** @typedef {{ url: string, close: () => Promise<unknown> }} Served */

const { Bun, Deno } = /** @type {any} */ (globalThis)

/** @param {FetchHandler} handler @returns {Promise<Served>} */
export async function serveFetch(handler) {
  if (Bun !== undefined) {
    const server = Bun.serve({ port: 0, hostname: '127.0.0.1', fetch: (/** @type {Request} */ request) => handler(request) })
    return { url: `http://127.0.0.1:${server.port}`, close: () => server.stop(true) }
  }
  const server = Deno.serve({ port: 0, hostname: '127.0.0.1', onListen() {} }, (/** @type {Request} */ request) => handler(request))
  return { url: `http://127.0.0.1:${server.addr.port}`, close: () => server.shutdown() }
}

/** By node:http, which both have. @param {import('node:http').RequestListener} listener @returns {Promise<Served>} */
export async function serveNode(listener) {
  const server = createServer(listener)
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = /** @type {import('node:net').AddressInfo} */ (server.address())
  return {
    url: `http://127.0.0.1:${port}`,
    async close() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}
