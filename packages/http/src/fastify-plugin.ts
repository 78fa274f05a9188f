import type { IncomingMessage, ServerResponse } from 'node:http'
import { checkName } from '@ackord/core/internal'
import { type FetchHandler, handleIncoming } from './node-handler.ts'

/** What is used of Fastify's request, reply and instance. */
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
 * A plugin for Fastify 5: `app.register(toFastifyPlugin(source.handler, '/events'))`. Its content type parsers are its own, so that bodies come as they are; the
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
