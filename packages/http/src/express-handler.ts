import type { IncomingMessage, ServerResponse } from 'node:http'
import { AckordError } from '@ackord/core'
import { describeValue } from '@ackord/core/internal'
import { type FetchHandler, handleIncoming, writeResponse } from './node-handler.ts'

/** What is used of Express' request: Node's, and a body where a parser has run. */
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

/** What a parser has left of the body; `undefined` if it can still be read. */
function parsedBody({ body, readableEnded }: ExpressRequest): Uint8Array | undefined {
  if (body instanceof Uint8Array) return body
  if (typeof body === 'string') return Buffer.from(body)
  if (!readableEnded) return undefined
  const text = `A body parser has run before the HTTP source and left ${describeValue(body)}; bytes are needed. Mount toExpressHandler() before it.`
  throw new AckordError('ACKORD_WRONG_DATA', text)
}
