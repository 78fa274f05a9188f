import type { IncomingMessage, ServerResponse } from 'node:http'
import { AckordError } from '@ackord/core'
import { checkName, describeValue } from '@ackord/core/internal'
import { type FetchHandler, handleIncoming, writeResponse } from './node-handler.ts'

/** The part of Express' request that is used: Node's request, and the body if a parser has run. */
export interface ExpressRequest extends IncomingMessage {
  readonly body?: unknown
}

/** A route's handler for Express 4 and 5: `app.post('/events', toExpressHandler(source.handler))`. Before body parsers, or behind `express.raw()` alone. */
export function toExpressHandler(
  handler: FetchHandler,
): (request: ExpressRequest, response: ServerResponse, next: (error: unknown) => void) => void {
  return (request, response, next) => {
    respond(handler, request, response).catch(next)
  }
}

async function respond(handler: FetchHandler, request: ExpressRequest, response: ServerResponse): Promise<void> {
  await writeResponse(response, await handleIncoming(handler, request, response, parsedBody(request)))
}

/** The body that a parser has read; `undefined` if it can still be read. */
function parsedBody({ body, readableEnded }: ExpressRequest): Uint8Array | undefined {
  if (body instanceof Uint8Array) return body
  if (typeof body === 'string') return Buffer.from(body)
  if (!readableEnded) return undefined
  const text = `A body parser has run before the HTTP source and left ${describeValue(body)}; bytes are needed. Mount toExpressHandler() before it.`
  throw new AckordError('ACKORD_WRONG_DATA', text)
}

/** The part of Fastify's request, reply and instance that is used. */
export interface FastifyRequest {
  readonly raw: IncomingMessage
}

export interface FastifyReply {
  readonly raw: ServerResponse
  code(status: number): unknown
  header(name: string, value: string): unknown
  send(body: unknown): unknown
}

export interface FastifyInstance {
  removeAllContentTypeParsers(): unknown
  addContentTypeParser(
    contentType: string,
    parser: (request: FastifyRequest, payload: IncomingMessage, done: (error: null) => void) => void,
  ): unknown
  all(path: string, handler: (request: FastifyRequest, reply: FastifyReply) => Promise<unknown>): unknown
}

/**
 * A plugin for Fastify 5: `app.register(toFastifyPlugin(source.handler, '/events'))`. It has its own content type parsers, so that bodies are not changed; the
 * hooks of the application apply.
 */
export function toFastifyPlugin(handler: FetchHandler, path: string): (instance: FastifyInstance) => Promise<void> {
  checkName('path', path)
  return async function ackordHttp(instance) {
    instance.removeAllContentTypeParsers()
    instance.addContentTypeParser('*', (_request, _payload, done) => done(null))
    instance.all(path, async (request, reply) => {
      const response = await handleIncoming(handler, request.raw, reply.raw)
      reply.code(response.status)
      for (const [name, value] of response.headers) reply.header(name, value)
      return reply.send(Buffer.from(await response.arrayBuffer()))
    })
  }
}

/** The part of Hono's context that is used. */
export interface HonoContext {
  readonly req: { readonly raw: Request }
}

/** A route's handler for Hono: `app.post('/events', toHonoHandler(source.handler))`. Before anything that reads bodies. */
export function toHonoHandler(handler: FetchHandler): (context: HonoContext) => Promise<Response> {
  return (context) => handler(context.req.raw)
}
