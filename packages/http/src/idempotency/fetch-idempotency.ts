import type { IdempotencyStore, StoredAnswer } from '@ackord/outbox'
import { answerTooLarge } from './answer-errors.ts'
import { type HeaderList, headersSince, mergeHeaders } from './answer-headers.ts'
import { IdempotencyEngine, type RequestView } from './idempotency-engine.ts'
import type { IdempotencyOptions } from './idempotency-options.ts'
import { readBounded } from './read-bounded.ts'

/** Handles a request. `transaction` is `undefined` if the request needs no key; the handler then begins its own. */
export type FetchWork<Transaction> = (transaction: Transaction | undefined) => Response | Promise<Response>

/**
 * For everything that speaks Fetch, such as the route handlers of Next.js, and `toNodeHandler()`:
 *
 *     const idempotent = fetchIdempotency(sqlIdempotency(database), { scope: (request) => [userOf(request), 'POST /orders'] })
 *     const handler = (request: Request) => idempotent(request, (transaction) => placeOrder(transaction, request))
 */
export function fetchIdempotency<Transaction, FetchRequest extends Request = Request>(
  store: IdempotencyStore<Transaction>,
  options: IdempotencyOptions<FetchRequest>,
): (request: FetchRequest, work: FetchWork<Transaction>) => Promise<Response> {
  const engine = new IdempotencyEngine(store, options, 'fetchIdempotency()')
  return async function idempotent(request, work) {
    const answer = await engine.handle(request, viewOfRequest(request), async (transaction, { signal }) => {
      return await answerOf(await work(transaction), engine.maxAnswerSize, { signal })
    })
    return answer === undefined ? await work(undefined) : toResponse(answer)
  }
}

/** Reads a copy of the body, so that the handler still can. */
export function viewOfRequest(request: Request): RequestView {
  return {
    method: request.method,
    url: request.url,
    header: (name) => request.headers.get(name),
    body: () => request.clone().body ?? undefined,
  }
}

export interface AnswerOfOptions {
  readonly signal: AbortSignal
  /** Headers of the response that are not part of the answer. Default: none. */
  readonly before?: HeaderList | undefined
}

export async function answerOf(response: Response, maxAnswerSize: number, options: AnswerOfOptions): Promise<StoredAnswer> {
  const { signal, before = [] } = options
  const body = response.body === null ? new Uint8Array() : await readBounded(response.body, maxAnswerSize, signal)
  if (body === undefined) throw answerTooLarge(maxAnswerSize)
  return { status: response.status, headers: headersSince(before, [...response.headers]), body }
}

export function toResponse({ status, headers, body }: StoredAnswer, before: HeaderList = []): Response {
  const merged = [...mergeHeaders(before, headers)].flatMap(([name, values]) => values.map((value): [string, string] => [name, value]))
  // Some statuses, such as 204, allow no body at all. The copy has an array buffer of its own, as Response requires.
  return new Response(body.byteLength === 0 ? null : new Uint8Array(body), { status, headers: merged })
}
