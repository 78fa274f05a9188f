import type { IncomingMessage, ServerResponse } from 'node:http'
import { answer } from '../source/answers.ts'

/** Anything that answers requests in the style of Fetch: `source.handler`. */
export type FetchHandler = (request: Request) => Promise<Response>

/** For `http.createServer()` and everything that takes its listeners. The body must not have been read. */
export function toNodeHandler(handler: FetchHandler): (incoming: IncomingMessage, outgoing: ServerResponse) => void {
  return (incoming, outgoing) => {
    void respond(handler, incoming, outgoing)
  }
}

/** Never rejects: a client that went while it was answered is nobody's error. */
async function respond(handler: FetchHandler, incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
  await writeResponse(outgoing, await handleIncoming(handler, incoming, outgoing))
}

export async function writeResponse(outgoing: ServerResponse, response: Response): Promise<void> {
  const body = Buffer.from(await response.arrayBuffer())
  if (outgoing.destroyed || outgoing.headersSent) return
  outgoing.writeHead(response.status, { 'content-length': String(body.byteLength), ...Object.fromEntries(response.headers) })
  outgoing.end(body)
}

/** The answer to a request of Node's. What is left of the body is read and thrown away, so that the connection can be used again. */
export async function handleIncoming(
  handler: FetchHandler,
  incoming: IncomingMessage,
  outgoing: ServerResponse,
  parsed?: Uint8Array | undefined,
): Promise<Response> {
  const client = new AbortController()
  outgoing.once('close', () => {
    if (!outgoing.writableFinished) client.abort()
  })
  const body = new IncomingBody(incoming)
  let request: Request
  try {
    request = requestOf(incoming, parsed ?? body.stream(), client.signal)
  } catch {
    // Fetch has no word for some methods and headers that Node lets pass.
    return answer(400, 'The request cannot be read.')
  }
  try {
    return await handler(request)
  } finally {
    body.release()
  }
}

function requestOf(incoming: IncomingMessage, body: ReadableStream<Uint8Array> | Uint8Array, signal: AbortSignal): Request {
  const { method = 'GET', url = '/', rawHeaders } = incoming
  const headers = new Headers()
  for (let index = 0; index + 1 < rawHeaders.length; index += 2) {
    const [name = '', value = ''] = [rawHeaders[index], rawHeaders[index + 1]]
    // HTTP/2 has the method and the path among its headers.
    if (!name.startsWith(':')) headers.append(name, value)
  }
  // The path may be a whole URL; where there is none, the host does not matter.
  const target = new URL(url, 'http://localhost')
  const init = { method, headers, signal }
  return method === 'GET' || method === 'HEAD' ? new Request(target, init) : new Request(target, { ...init, body, duplex: 'half' })
}

/** The body as a web stream. Not `Readable.toWeb`: that closes the connection of a body that is not read to its end, and with it the answer. */
class IncomingBody {
  readonly #incoming: IncomingMessage
  #onData: ((chunk: Uint8Array) => void) | undefined

  constructor(incoming: IncomingMessage) {
    this.#incoming = incoming
  }

  stream(): ReadableStream<Uint8Array> {
    const incoming = this.#incoming
    return new ReadableStream<Uint8Array>(
      {
        pull: (controller) => {
          if (this.#onData === undefined) this.#listen(controller)
          incoming.resume()
        },
        cancel: () => this.release(),
      },
      { highWaterMark: 0 },
    )
  }

  /** Reads the rest, and throws it away. Idempotent. */
  release(): void {
    const incoming = this.#incoming
    if (this.#onData !== undefined) incoming.off('data', this.#onData)
    // Errors of a body that nobody reads concern nobody.
    incoming.on('error', () => {})
    if (!incoming.readableEnded) incoming.resume()
  }

  #listen(controller: ReadableStreamDefaultController<Uint8Array>): void {
    const incoming = this.#incoming
    let open = true
    const end = (finish: () => void) => () => {
      if (open) finish()
      open = false
    }
    this.#onData = (chunk) => {
      incoming.pause()
      if (open) controller.enqueue(new Uint8Array(chunk.buffer, chunk.byteOffset, chunk.byteLength))
    }
    incoming.on('data', this.#onData)
    incoming.once(
      'end',
      end(() => controller.close()),
    )
    incoming.once('error', (error) => end(() => controller.error(error))())
    incoming.once(
      'close',
      end(() => controller.error(new Error('The connection was closed.'))),
    )
  }
}
