import type { IncomingMessage, ServerResponse } from 'node:http'
import { answer } from '../source/answers.ts'

/** A function that answers a Fetch request, such as `source.handler`. */
export type FetchHandler = (request: Request) => Promise<Response>

/** For `http.createServer()` and everything that accepts its listeners. The body must not have been read. */
export function toNodeHandler(handler: FetchHandler): (incoming: IncomingMessage, outgoing: ServerResponse) => void {
  return (incoming, outgoing) => {
    void respond(handler, incoming, outgoing)
  }
}

/** Never rejects: a client that disconnects while it is answered is not an error. */
async function respond(handler: FetchHandler, incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
  await writeResponse(outgoing, await handleIncoming(handler, incoming, outgoing))
}

export async function writeResponse(outgoing: ServerResponse, response: Response): Promise<void> {
  const body = Buffer.from(await response.arrayBuffer())
  if (outgoing.destroyed || outgoing.headersSent) return
  outgoing.writeHead(response.status, { 'content-length': String(body.byteLength), ...Object.fromEntries(response.headers) })
  outgoing.end(body)
}

/** The answer to a request of Node. The rest of the body is read and discarded, so that the connection can be reused. */
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
    // Fetch does not allow some methods and headers that Node accepts.
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
    // In HTTP/2 the method and the path are headers.
    if (!name.startsWith(':')) headers.append(name, value)
  }
  // The path may be a whole URL; otherwise the host does not matter.
  const target = new URL(url, 'http://localhost')
  const init = { method, headers, signal }
  return method === 'GET' || method === 'HEAD' ? new Request(target, init) : new Request(target, { ...init, body, duplex: 'half' })
}

/** The body as a web stream. Not `Readable.toWeb`: if a body is not read to its end, that closes the connection before the answer is sent. */
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

  /** Reads and discards the rest. Idempotent. */
  release(): void {
    const incoming = this.#incoming
    if (this.#onData !== undefined) incoming.off('data', this.#onData)
    // Errors of a discarded body do not matter.
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
