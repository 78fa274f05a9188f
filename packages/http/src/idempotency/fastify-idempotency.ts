import { Readable } from 'node:stream'
import { AckordError } from '@ackord/core'
import type { IdempotencyStore, StoredAnswer } from '@ackord/outbox'
import { answerTooLarge } from './answer-errors.ts'
import { type HeaderList, headersSince, mergeHeaders, toHeaderList } from './answer-headers.ts'
import { CapturedReply } from './captured-reply.ts'
import { IdempotencyEngine, type RequestView } from './idempotency-engine.ts'
import type { IdempotencyOptions } from './idempotency-options.ts'
import { readBounded } from './read-bounded.ts'

/** The part of Fastify's request that is used. */
export interface FastifyRouteRequest {
  readonly method: string
  readonly url: string
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>
  readonly body: unknown
}

/** The part of Fastify's reply that is used. */
export interface FastifyRouteReply {
  readonly statusCode: number
  readonly raw: { readonly headersSent: boolean }
  getHeaders(): Record<string, number | string | string[] | undefined>
  removeHeader(name: string): unknown
  header(name: string, value: string | readonly string[]): unknown
  code(status: number): unknown
  serialize(payload: never): string | ArrayBuffer | Buffer
  send(payload?: unknown): unknown
}

// Fastify gives a handler its types by the route; a wrapper only passes them on.
type AnyHandler = (this: never, request: never, reply: never) => unknown

/**
 * Wraps handlers of Fastify's routes. The transaction is ambient in the handler: `database.executor()`. What the handler returns or sends is sent after the commit.
 *
 *     const idempotent = fastifyIdempotency(sqlIdempotency(database), { scope: (request: FastifyRequest) => [request.user.id, 'POST /orders'] })
 *     app.post('/orders', { schema }, idempotent(placeOrder))
 */
export function fastifyIdempotency<Transaction, Request extends FastifyRouteRequest = FastifyRouteRequest>(
  store: IdempotencyStore<Transaction>,
  options: IdempotencyOptions<Request>,
): <Handler extends AnyHandler>(handler: Handler) => Handler {
  const engine = new IdempotencyEngine(store, options, 'fastifyIdempotency()')

  function wrap(handler: (this: unknown, request: Request, reply: FastifyRouteReply) => unknown) {
    return async function idempotent(this: unknown, request: Request, reply: FastifyRouteReply): Promise<unknown> {
      const { statusCode } = reply
      const before = toHeaderList(reply.getHeaders())
      const answer = await engine.handle(request, viewOf(request), async (_transaction, { signal }) => {
        const captured = new CapturedReply(reply)
        const payload = await captured.payloadOf(handler.call(this, request, captured.reply))
        const given = await answerTo(reply, payload, { before, signal, maxAnswerSize: engine.maxAnswerSize })
        // If the commit fails, the error handler must not find the status and the headers of an answer that is not sent.
        reply.code(statusCode)
        setHeaders(reply, before, [])
        return given
      })
      if (answer !== undefined) return send(reply, answer, before)
      const returned = handler.call(this, request, reply)
      // A handler that returns nothing sends later. Fastify waits for that if it gets the reply; if it got nothing, it would answer now.
      return returned === undefined ? reply : await returned
    }
  }

  // A handler of any route is one of the request and reply that every route has.
  return wrap as unknown as <Handler extends AnyHandler>(handler: Handler) => Handler
}

function viewOf(request: FastifyRouteRequest): RequestView {
  return {
    method: request.method,
    url: request.url,
    header: (name) => request.headers[name],
    body: () => request.body,
  }
}

interface AnswerToOptions {
  readonly before: HeaderList
  readonly signal: AbortSignal
  readonly maxAnswerSize: number
}

/** The answer that Fastify would send for this payload. */
async function answerTo(reply: FastifyRouteReply, payload: unknown, options: AnswerToOptions): Promise<StoredAnswer> {
  const { before, signal, maxAnswerSize } = options
  if (reply.raw.headersSent) {
    throw new AckordError('ACKORD_WRONG_DATA', 'An idempotent handler has written to `reply.raw`, before the commit. Use `reply` itself.')
  }
  if (payload instanceof Response) {
    reply.code(payload.status)
    for (const [name, value] of payload.headers) reply.header(name, value)
    return await answerTo(reply, payload.body, options)
  }
  const isStream = payload instanceof ReadableStream || payload instanceof Readable
  const body = isStream ? await readBounded(payload, maxAnswerSize, signal) : bytesOf(reply, payload)
  if (body === undefined) throw answerTooLarge(maxAnswerSize)
  return { status: reply.statusCode, headers: headersSince(before, toHeaderList(reply.getHeaders())), body }
}

/** With the content type that Fastify chooses if there is none. */
function bytesOf(reply: FastifyRouteReply, payload: unknown): Uint8Array {
  if (payload === undefined || payload === null) return new Uint8Array()
  const chooseType = (type: string) => {
    if (reply.getHeaders()['content-type'] === undefined) reply.header('content-type', type)
  }
  if (payload instanceof Uint8Array) {
    chooseType('application/octet-stream')
    return payload
  }
  if (typeof payload === 'string') {
    chooseType('text/plain; charset=utf-8')
    return Buffer.from(payload)
  }
  chooseType('application/json; charset=utf-8')
  const serialized = reply.serialize(payload as never)
  return typeof serialized === 'string' ? Buffer.from(serialized) : new Uint8Array(serialized)
}

function send(reply: FastifyRouteReply, { status, headers, body }: StoredAnswer, before: HeaderList): unknown {
  setHeaders(reply, before, headers)
  reply.code(status)
  // Without a payload: bytes, even none, would get a content type.
  return body.byteLength === 0 ? reply.send() : reply.send(Buffer.from(body.buffer, body.byteOffset, body.byteLength))
}

function setHeaders(reply: FastifyRouteReply, before: HeaderList, headers: HeaderList): void {
  for (const name of Object.keys(reply.getHeaders())) reply.removeHeader(name)
  for (const [name, values] of mergeHeaders(before, headers)) reply.header(name, values.length === 1 ? (values[0] ?? '') : values)
}
