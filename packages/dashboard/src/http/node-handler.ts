import { once } from 'node:events'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { invalid } from './api-failure.ts'
import { failureResponse } from './responses.ts'

/** A request of Node, with the fields that frameworks add to it. */
export interface NodeRequest extends IncomingMessage {
  /** The body, if a parser of the framework has read it. */
  readonly body?: unknown
  /** The whole path, if the framework has removed its mount path from `url`. */
  readonly originalUrl?: string | undefined
}

/** A request of Node in the form of the Fetch API. */
export interface AdaptedRequest {
  readonly request: Request
  /** The path below which a framework has mounted the handler; empty if it has not. */
  readonly mountPath: string
}

/** Answers a request of Node. `answer` returns `undefined` for a request that it leaves to `next`. Never rejects: a client that disconnects is not an error. */
export async function handleNode(
  incoming: NodeRequest,
  outgoing: ServerResponse,
  answer: (adapted: AdaptedRequest) => Promise<Response | undefined>,
  next: () => void,
): Promise<void> {
  const client = new AbortController()
  outgoing.once('close', () => {
    if (!outgoing.writableFinished) client.abort()
  })
  let adapted: AdaptedRequest | undefined
  try {
    adapted = { request: requestOf(incoming, client.signal), mountPath: mountPathOf(incoming) }
  } catch {
    // Fetch does not allow some methods and headers that Node accepts.
  }
  const response = adapted === undefined ? failureResponse(invalid('The request cannot be read.')) : await answer(adapted)
  if (response === undefined) return next()
  try {
    await writeResponse(outgoing, response, client.signal)
  } catch {
    outgoing.destroy()
  }
  discardBody(incoming)
}

function requestOf(incoming: NodeRequest, signal: AbortSignal): Request {
  const { method = 'GET', rawHeaders } = incoming
  const headers = new Headers()
  for (let index = 0; index + 1 < rawHeaders.length; index += 2) {
    const [name = '', value = ''] = [rawHeaders[index], rawHeaders[index + 1]]
    // In HTTP/2 the method and the path are headers.
    if (!name.startsWith(':')) headers.append(name, value)
  }
  const target = incoming.originalUrl ?? incoming.url ?? '/'
  const host = incoming.headers.host ?? incoming.headers[':authority'] ?? 'localhost'
  // Not as a relative URL: `//name/path` would name a host. A proxy sends the whole URL.
  const url = new URL(target.startsWith('/') ? `http://${host}${target}` : target)
  const init = { method, headers, signal }
  return method === 'GET' || method === 'HEAD'
    ? new Request(url, init)
    : new Request(url, { ...init, body: bodyOf(incoming), duplex: 'half' })
}

/** Express removes the path that a handler is mounted at from `url`, and keeps it in `originalUrl`. */
function mountPathOf({ url = '/', originalUrl }: NodeRequest): string {
  const [whole = ''] = (originalUrl ?? url).split('?', 1)
  const [rest = ''] = url.split('?', 1)
  if (whole.endsWith(rest)) return whole.slice(0, whole.length - rest.length)
  // Of a request for the mount path itself the rest is `/`.
  return rest === '/' ? whole : ''
}

/** The bytes that a parser has read, or the unread body. The body of a request with another type is unread, although some parsers set `body` for it too. */
function bodyOf(incoming: NodeRequest): ReadableStream<Uint8Array> | Uint8Array<ArrayBuffer> | string {
  const { body } = incoming
  if (!incoming.readableEnded || body === undefined) return ReadableStream.from(chunksOf(incoming))
  if (typeof body === 'string') return body
  return body instanceof Uint8Array ? new Uint8Array(body) : JSON.stringify(body)
}

/** Not `Readable.toWeb`: if a body is not read to its end, that closes the connection before the answer is sent. */
async function* chunksOf(incoming: IncomingMessage): AsyncGenerator<Uint8Array, void, void> {
  for await (const chunk of incoming.iterator({ destroyOnReturn: false })) yield new Uint8Array(chunk as Buffer)
}

/** After the answer: the rest of a small body is read, so that the connection can be reused. A client that goes on sending a large one is disconnected. */
function discardBody(incoming: IncomingMessage): void {
  if (incoming.readableEnded || incoming.destroyed) return
  let left = maxDiscarded
  incoming.on('error', () => {})
  incoming.on('data', (chunk: Buffer) => {
    left -= chunk.byteLength
    if (left < 0) incoming.destroy()
  })
}

const maxDiscarded = 64 * 1024 * 1024

async function writeResponse(outgoing: ServerResponse, response: Response, client: AbortSignal): Promise<void> {
  const reader = response.body?.getReader()
  const stop = () => void reader?.cancel().catch(() => {})
  if (outgoing.destroyed || outgoing.headersSent || client.aborted) return stop()
  client.addEventListener('abort', stop, { once: true })
  outgoing.writeHead(response.status, Object.fromEntries(response.headers))
  // Events are sent one by one, the first of them maybe later.
  outgoing.flushHeaders()
  while (reader !== undefined) {
    const { done, value } = await reader.read()
    if (done || client.aborted) break
    if (!outgoing.write(value)) await once(outgoing, 'drain', { signal: client })
  }
  outgoing.end()
}
