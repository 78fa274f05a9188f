import { AckordError, type PublishFailure } from '@ackord/core'
import { describeValue, redactDestination } from '@ackord/core/internal'
import type { HttpVerdict } from './send-request.ts'

export interface RefusedAnswer {
  /** The endpoint, as it may be shown. */
  readonly shown: string
  readonly status: number
  readonly verdict: Exclude<HttpVerdict, 'confirmed'>
  readonly retryAfter: number | undefined
}

/** The receiver answered, and does not have the message. */
export function refused({ shown, status, verdict, retryAfter }: RefusedAnswer): PublishFailure {
  const error = failed(`${shown} answered ${status}${advice(status)}.`, { retryable: verdict !== 'park' })
  const pause = retryAfter === undefined ? {} : { retryAfter }
  if (verdict === 'park') return { ok: false, error, permanent: true }
  return verdict === 'destination' ? { ok: false, error, scope: 'destination', ...pause } : { ok: false, error, ...pause }
}

function advice(status: number): string {
  if (status === 0 || (status >= 300 && status < 400))
    return ', a redirect. Redirects are not followed, because they change the request; set the URL to where it leads'
  switch (status) {
    case 401:
    case 403:
    case 407:
      return ': it does not let us in. Check the credentials, headers and secrets of the publisher'
    case 404:
    case 405:
    case 410:
      return ': nothing takes events there. Check the URL'
    case 413:
      return ': the message is too large for it'
    case 431:
      return ": the attributes are too large for its headers. Use mode: 'structured'"
    default:
      return ''
  }
}

/** It could not be reached, or the connection was lost before it had answered: it may have the message all the same. */
export function unreachable(shown: string, cause: unknown): PublishFailure {
  const text = `${shown} gave no answer: it could not be reached, or the connection was lost. It may have the message all the same.`
  return { ok: false, error: failed(text, { cause }), scope: 'destination' }
}

export function tooSlow(shown: string, timeout: number): AckordError {
  return failed(`${shown} did not answer within ${timeout} ms. It may have the message all the same.`)
}

/** The time of whoever called was over, which is no fault of the message. */
export function aborted(shown: string, cause: unknown): PublishFailure {
  return { ok: false, error: failed(`Publishing was aborted before ${shown} had answered.`, { cause }), scope: 'destination' }
}

/** The destination failed for an earlier message of the call, so that there was no use in trying. */
export function notTried(shown: string, earlier: PublishFailure): PublishFailure {
  const text = `An earlier message to ${shown} failed because of the destination, so this one was not sent.`
  const pause = earlier.retryAfter === undefined ? {} : { retryAfter: earlier.retryAfter }
  return { ok: false, error: failed(text, { cause: earlier.error }), scope: 'destination', ...pause }
}

/** An earlier message of its key failed: behind it, it would be out of order. */
export function heldBack(shown: string, earlier: PublishFailure): PublishFailure {
  const text = `An earlier message with the same partitionkey was not taken by ${shown}, so this one was not sent.`
  const pause = earlier.retryAfter === undefined ? {} : { retryAfter: earlier.retryAfter }
  return { ok: false, error: failed(text, { cause: earlier.error }), tried: false, ...pause }
}

export function wrongData(shown: string, data: unknown): PublishFailure {
  const text = `HTTP carries bytes; a message to ${shown} has ${describeValue(data)}. Marshal it first.`
  return { ok: false, error: new AckordError('ACKORD_WRONG_DATA', text, { retryable: false }), permanent: true }
}

/** It has no form in HTTP. */
export function unencodable(shown: string, cause: unknown): PublishFailure {
  return {
    ok: false,
    error: failed(`A message to ${shown} cannot be written as a CloudEvent over HTTP; the cause says why.`, { cause, retryable: false }),
    permanent: true,
  }
}

/** The option `route` failed, or what it gave is no URL. */
export function unrouted(destination: string, cause: unknown): PublishFailure {
  return { ok: false, error: failed(`The URL of a message to '${redactDestination(destination)}' could not be told.`, { cause }) }
}

/** Without `url` and `route` the destination is the URL, and this one is none. It is not shown: it may hold a password. */
export function noUrl(cause: unknown): PublishFailure {
  const text = 'The destination is not a URL. Give the publisher a url or a route, or use absolute URLs as destinations.'
  return { ok: false, error: failed(text, { cause }), scope: 'destination' }
}

/** The option `headers` failed. */
export function noHeaders(shown: string, cause: unknown): PublishFailure {
  return { ok: false, error: failed(`The headers for ${shown} could not be told.`, { cause }), scope: 'destination' }
}

function failed(text: string, options: { readonly cause?: unknown; readonly retryable?: boolean } = {}): AckordError {
  return new AckordError('ACKORD_PUBLISH_FAILED', text, options)
}
