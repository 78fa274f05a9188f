import type { BrokerRoute, ServedFrameworkPiece } from '../piece.ts'
import { httpSettings } from './http-settings.ts'

/** No HTTP, unless the broker needs a route: then a server of Node with that route alone. */
export function none(route: BrokerRoute | undefined): ServedFrameworkPiece {
  const common = { title: 'none', dependencies: [], files: {}, options: [], hasRoutes: false } as const
  if (route === undefined) {
    return {
      ...common,
      settings: [],
      imports: {},
      listen: "console.log('Waiting for messages. Ctrl-C ends the service.')",
    }
  }
  return {
    ...common,
    settings: httpSettings,
    imports: { '@ackord/http': ['toNodeHandler'], './http/server.ts': ['listen'], './settings.ts': ['host', 'port'] },
    listen: `service.start()
const server = await listen(toNodeHandler(${route.handler}), { host, port })
console.log(\`Listening on \${server.url}\`)`,
    close: 'await server.close() // answers open requests',
  }
}
