import { escapeText } from '@ackord/core/internal'
import { formatRetryAfter } from '../cloudevents/headers.ts'

/** The longest text of an answer: it may quote the request. */
const maxTextLength = 500

/** An answer with one sentence for the sender's log. It reveals nothing about this process. */
export function answer(status: number, text: string, headers: Readonly<Record<string, string>> = {}): Response {
  return new Response(`${escapeText(text, maxTextLength)}\n`, {
    status,
    headers: { 'content-type': 'text/plain; charset=utf-8', ...headers },
  })
}

/** Every message was handled. */
export function handled(): Response {
  return new Response(null, { status: 200 })
}

export function accepted(): Response {
  return new Response(null, { status: 202 })
}

/** Try again, here or elsewhere. */
export function unavailable(text: string, headers: Readonly<Record<string, string>> = {}): Response {
  return answer(503, text, { 'retry-after': '5', ...headers })
}

export function notHandled(retryAfter: number): Response {
  return answer(500, 'Not handled. Send it again.', retryAfter > 0 ? { 'retry-after': formatRetryAfter(retryAfter) } : {})
}

export function notInTime(): Response {
  return answer(504, 'Not handled in time. It may still be. Send it again, with the same id.')
}
