import type { FetchHandler } from './node-handler.ts'

/** What is used of Hono's context. */
export interface HonoContext {
  readonly req: { readonly raw: Request }
}

/** A route's handler for Hono: `app.post('/events', toHonoHandler(source.handler))`. Before anything that reads bodies. */
export function toHonoHandler(handler: FetchHandler): (context: HonoContext) => Promise<Response> {
  return (context) => handler(context.req.raw)
}
