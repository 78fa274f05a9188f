import { once, setMaxListeners } from 'node:events'
import { createServer, type RequestListener, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { type Attributes, Message, type RawMessage, type Source } from '@ackord/core'

export interface TestServer extends AsyncDisposable {
  readonly url: string
  readonly server: Server
}

/** A separate server on a free port. */
export async function serve(listener: RequestListener): Promise<TestServer> {
  const server = createServer(listener)
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${portOf(server)}/events`,
    server,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

export function portOf(server: { address(): AddressInfo | string | null }): number {
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('The server has no port.')
  return address.port
}

export function event(id: string, more: Attributes = {}): RawMessage {
  const attributes = { id, type: 'test.event', source: '/test', specversion: '1.0', datacontenttype: 'application/json', ...more }
  return new Message(new TextEncoder().encode(JSON.stringify({ id })), attributes)
}

export function text(message: RawMessage): string {
  return new TextDecoder().decode(message.data)
}

/** Starts reading immediately: until then, requests are refused. */
export function open(source: Source, signal: AbortSignal = never): AsyncIterator<RawMessage> {
  const messages = source.messages({ signal })[Symbol.asyncIterator]()
  let first: Promise<IteratorResult<RawMessage>> | undefined = messages.next()
  return {
    next() {
      const next = first ?? messages.next()
      first = undefined
      return next
    },
    return: async () => (await messages.return?.()) ?? { value: undefined, done: true },
  }
}

export async function pull(messages: AsyncIterator<RawMessage>): Promise<RawMessage> {
  const { value, done } = await messages.next()
  if (done === true) throw new Error('The iteration has ended.')
  return value
}

export const never: AbortSignal = new AbortController().signal
setMaxListeners(0, never)

/** A request in binary mode. */
export function binaryRequest(id: string, more: RequestInit & { readonly headers?: Record<string, string> } = {}): Request {
  const headers = {
    'ce-id': id,
    'ce-type': 'test.event',
    'ce-source': '/test',
    'ce-specversion': '1.0',
    'content-type': 'application/json',
  }
  return new Request('http://test/events', { method: 'POST', body: '{}', ...more, headers: { ...headers, ...more.headers } })
}

/** A whsec_ secret of 32 bytes. */
export function secretOf(seed: string): string {
  return `whsec_${Buffer.from(seed.padEnd(32, '.')).toString('base64')}`
}
