import type { IncomingMessage, ServerResponse } from 'node:http'
import { AckordError } from '@ackord/core'
import { escapeText } from '@ackord/core/internal'
import type { IdempotencyStore, StoredAnswer } from '@ackord/outbox'
import { type HeaderList, mergeHeaders, toHeaderList } from './answer-headers.ts'
import { CapturedResponse } from './captured-response.ts'
import { IdempotencyEngine, type RequestView } from './idempotency-engine.ts'
import type { IdempotencyOptions } from './idempotency-options.ts'

/** The part of Express' request that is used: Node's request, the URL before routers have shortened it, and the body if a parser has run. */
export interface ExpressRouteRequest extends IncomingMessage {
  readonly originalUrl: string
  readonly body?: unknown
}

/** A handler of Express, synchronous or not. */
export type ExpressHandler<Request, Response> = (request: Request, response: Response, next: (error?: unknown) => void) => unknown

/**
 * Wraps handlers of Express 5, behind a body parser. The transaction is ambient in the handler: `database.executor()`. What the handler sends is sent after
 * the commit. Not a middleware: it would not see what handlers throw, and commit half of their work.
 *
 *     const idempotent = expressIdempotency(sqlIdempotency(database), { scope: (request: Request) => [request.user.id, 'POST /orders'] })
 *     app.post('/orders', express.json(), idempotent(placeOrder))
 */
export function expressIdempotency<Transaction, Request extends ExpressRouteRequest = ExpressRouteRequest>(
  store: IdempotencyStore<Transaction>,
  options: IdempotencyOptions<Request>,
): <HandlerRequest extends Request, Response extends ServerResponse>(
  handler: ExpressHandler<HandlerRequest, Response>,
) => (request: HandlerRequest, response: Response, next: (error?: unknown) => void) => void {
  const engine = new IdempotencyEngine(store, options, 'expressIdempotency()')
  return (handler) =>
    function idempotent(request, response, next) {
      const before = toHeaderList(response.getHeaders())
      const { statusCode } = response
      const work = async () => {
        const answer = await capture(handler, request, response, new CapturedResponse(response, before, engine.maxAnswerSize))
        // If the commit fails, the error handler must not find the status and the headers of an answer that is not sent.
        response.statusCode = statusCode
        setHeaders(response, before, [])
        return answer
      }
      engine
        .handle(request, viewOf(request), work)
        .then((answer) => (answer === undefined ? handler(request, response, next) : send(response, answer, before)))
        .catch(next)
    }
}

function viewOf(request: ExpressRouteRequest): RequestView {
  return {
    method: request.method ?? '',
    url: request.originalUrl,
    header: (name) => request.headers[name],
    body() {
      const { body, headers, readableEnded } = request
      const hasBody = headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0
      if (body === undefined && hasBody && !readableEnded) throw new BodyNotReadError(headers['content-type'])
      return body
    },
  }
}

async function capture<Request, Response extends ServerResponse>(
  handler: ExpressHandler<Request, Response>,
  request: Request,
  real: Response,
  captured: CapturedResponse<Response>,
): Promise<StoredAnswer> {
  const waiting = real.listenerCount('finish')
  const handled = (async () => handler(request, captured.response, (error) => captured.fail(error ?? passedOn())))()
  handled.catch(captured.fail)
  await captured.answer
  // The handler may still write to the database. But one that waits until its answer is sent would wait for ever: it is sent after the commit.
  if (real.listenerCount('finish') <= waiting) await handled
  return await captured.answer
}

/** Express takes the status for its answer: often it is the client that has sent another content type than the route accepts. */
class BodyNotReadError extends AckordError {
  static {
    this.prototype.name = 'BodyNotReadError'
  }

  readonly status: number = 415

  constructor(contentType: string = '') {
    const text = `No body parser has read the request, whose content type is ${JSON.stringify(escapeText(contentType))}. Mount one before the handler, such as express.json().`
    super('ACKORD_WRONG_DATA', text)
  }
}

function passedOn(): AckordError {
  const text =
    'An idempotent handler has called next() without an error. It must answer the request itself; wrap the last handler of the route.'
  return new AckordError('ACKORD_WRONG_DATA', text)
}

function send(response: ServerResponse, { status, headers, body }: StoredAnswer, before: HeaderList): void {
  // The client may have disconnected.
  if (response.destroyed) return
  setHeaders(response, before, headers)
  if (status !== 204 && status !== 304) response.setHeader('content-length', body.byteLength)
  response.statusCode = status
  response.end(body)
}

function setHeaders(response: ServerResponse, before: HeaderList, headers: HeaderList): void {
  const merged = mergeHeaders(before, headers)
  for (const name of response.getHeaderNames()) if (!merged.has(name) && !keptHeaders.has(name)) response.removeHeader(name)
  for (const [name, values] of merged) response.setHeader(name, values.length === 1 ? (values[0] ?? '') : values)
}

/** Once removed, Node would not send its own. */
const keptHeaders = new Set(['connection', 'date'])
