import { once } from 'node:events'
import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { CommandError, exitCode } from '../output/errors.ts'
import { errorText } from '../output/output.ts'

export interface ServerAddress {
  readonly host: string
  /** 0: any free port. */
  readonly port: number
}

export interface HttpServer extends AsyncDisposable {
  /** The address it listens on. */
  readonly url: string
}

/** Listens until it is disposed, which closes all connections. */
export async function startHttpServer({ host, port }: ServerAddress, handle: RequestListener): Promise<HttpServer> {
  const server = createServer(handle)
  try {
    server.listen(port, host)
    await once(server, 'listening')
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : ''
    throw new CommandError(`Cannot listen on ${host}:${port}: ${problems[code] ?? (code || errorText(error))}.`, {
      exitCode: exitCode.failed,
      hint: 'Choose another with --port or --host.',
      cause: error,
    })
  }
  // It listens on TCP.
  const { port: bound } = server.address() as AddressInfo
  return {
    url: `http://${host.includes(':') ? `[${host}]` : host}:${bound}`,
    async [Symbol.asyncDispose]() {
      const closed = once(server, 'close')
      server.close()
      server.closeAllConnections()
      await closed
    },
  }
}

const problems: Readonly<Record<string, string>> = {
  EADDRINUSE: 'the port is already in use',
  EACCES: 'permission denied',
  EADDRNOTAVAIL: 'the address does not belong to this machine',
  ENOTFOUND: 'host not found',
  EAI_AGAIN: 'the host name cannot be resolved',
}
