import type { IdempotencyStore } from '@ackord/outbox'
import { answerOf, toResponse, viewOfRequest } from './fetch-idempotency.ts'
import { IdempotencyEngine, type RequestView } from './idempotency-engine.ts'
import type { IdempotencyOptions } from './idempotency-options.ts'

/** The part of Hono's context that is used. */
export interface HonoRouteContext {
  readonly req: { readonly raw: Request; arrayBuffer(): Promise<ArrayBuffer> }
  /** The error that a handler has thrown, once Hono's error handler has answered it. */
  readonly error: Error | undefined
  get res(): Response
  set res(response: Response | undefined)
}

/**
 * A middleware for Hono, for single routes or a whole application. The transaction is ambient in what comes after it: `database.executor()`.
 *
 *     app.post('/orders', honoIdempotency(sqlIdempotency(database), { scope: (context) => [userOf(context), 'POST /orders'] }), placeOrder)
 */
export function honoIdempotency<Transaction, Context extends HonoRouteContext = HonoRouteContext>(
  store: IdempotencyStore<Transaction>,
  options: IdempotencyOptions<Context>,
): (context: Context, next: () => Promise<void>) => Promise<void> {
  const engine = new IdempotencyEngine(store, options, 'honoIdempotency()')
  return async function idempotent(context, next) {
    const before = [...context.res.headers]
    try {
      const answer = await engine.handle(context, viewOf(context), async (_transaction, { signal }) => {
        await next()
        // Hono does not throw it again. Thrown here, it rolls the transaction back.
        if (context.error !== undefined) throw context.error
        const given = await answerOf(context.res, engine.maxAnswerSize, { signal, before })
        // Hono adds the headers of the old response to a new one. If the commit fails, that is the one of the error handler.
        context.res = undefined
        return given
      })
      if (answer === undefined) return await next()
      context.res = undefined
      context.res = toResponse(answer, before)
    } catch (error) {
      // Hono's error handler has made the response already.
      if (context.error === undefined) throw error
    }
  }
}

/** A validator may have read the body already; Hono then has it. */
function viewOf({ req }: HonoRouteContext): RequestView {
  const view = viewOfRequest(req.raw)
  return { ...view, body: () => (req.raw.bodyUsed ? req.arrayBuffer() : view.body()) }
}
