import type { PublishFailure } from '@ackord/core'
import { abortedFailure, destinationFailure, permanentFailure, recordFailure } from '@ackord/core/broker'
import type { HttpVerdict } from './status-verdicts.ts'

export interface RefusedAnswer {
  /** The endpoint, as it may be shown. */
  readonly shown: string
  readonly status: number
  readonly verdict: Exclude<HttpVerdict, 'confirmed'>
  readonly retryAfter: number | undefined
}

/** The receiver answered, and did not accept the message. */
export function refused({ shown, status, verdict, retryAfter }: RefusedAnswer): PublishFailure {
  return failureOf(verdict, `${shown} answered ${status}${advice(status)}.`, retryAfter)
}

/** No answer in time counts as status 504, which is what a proxy would answer. */
export function timedOut(shown: string, timeout: number, verdict: HttpVerdict): PublishFailure {
  return failureOf(verdict, `${shown} did not answer within ${timeout} ms. It may have the message nevertheless.`, undefined)
}

function failureOf(verdict: HttpVerdict, text: string, retryAfter: number | undefined): PublishFailure {
  if (verdict === 'park') return permanentFailure(text)
  if (verdict !== 'retry') return destinationFailure(text, undefined, { retryAfter })
  return { ...recordFailure(text), ...(retryAfter === undefined ? {} : { retryAfter }) }
}

function advice(status: number): string {
  if (status === 0 || (status >= 300 && status < 400))
    return ', a redirect. Redirects are not followed, because they change the request; set the URL to the target of the redirect'
  switch (status) {
    case 401:
    case 403:
    case 407:
      return ': access denied. Check the credentials, headers and secrets of the publisher'
    case 404:
    case 405:
    case 410:
      return ': no receiver for events. Check the URL'
    case 413:
      return ': the message is too large for it'
    case 431:
      return ": the attributes are too large for its headers. Use mode: 'structured'"
    default:
      return ''
  }
}

/** The receiver could not be reached, or the connection was lost before it had answered: it may have the message nevertheless. */
export function unreachable(shown: string, cause: unknown): PublishFailure {
  const text = `${shown} did not answer: it could not be reached, or the connection was lost. It may have the message nevertheless.`
  return destinationFailure(text, cause)
}

export function aborted(shown: string, cause: unknown): PublishFailure {
  return abortedFailure(shown, cause)
}
