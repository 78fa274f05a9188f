import { formatRetryAfter } from './retry-after.ts'

/** An answer with one sentence for whoever reads the sender's log. It tells nothing of our inside. */
export function answer(status: number, text: string, headers: Readonly<Record<string, string>> = {}): Response {
  return new Response(`${text}\n`, { status, headers: { 'content-type': 'text/plain; charset=utf-8', ...headers } })
}

/** Every message was handled. */
export function handled(): Response {
  return new Response(null, { status: 200 })
}

export function accepted(): Response {
  return new Response(null, { status: 202 })
}

/** Try again, here or elsewhere. */
export function unavailable(text: string): Response {
  return answer(503, text, { 'retry-after': '5' })
}

export function notHandled(retryAfter: number): Response {
  return answer(500, 'Not handled. Send it again.', retryAfter > 0 ? { 'retry-after': formatRetryAfter(retryAfter) } : {})
}

export function notInTime(): Response {
  return answer(504, 'Not handled in time. It may still be. Send it again, with the same id.')
}
