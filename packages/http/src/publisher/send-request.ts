import { InvalidOptionError, type PublishResult, type Runtime } from '@ackord/core'
import { abortable, linkedController } from '@ackord/core/internal'
import { parseRetryAfter } from '../cloudevents/headers.ts'
import { idHeader, type SigningKey, sign, signatureHeader, timestampHeader } from '../cloudevents/signature.ts'
import { aborted, refused, timedOut, unreachable } from './publish-failures.ts'
import { type StatusVerdicts, verdictOf } from './status-verdicts.ts'

/** The part of `fetch` that is used. */
export type HttpFetch = (url: string, init: RequestInit) => Promise<Response>

export interface RequestSettings {
  readonly fetch: HttpFetch
  readonly timeout: number
  readonly statuses: StatusVerdicts
  readonly keys: readonly SigningKey[]
  readonly runtime: Runtime
}

export interface OutgoingRequest {
  readonly endpoint: Endpoint
  readonly headers: Readonly<Record<string, string>>
  readonly body: Uint8Array
  /** Names a signed request; the same when it is sent again. */
  readonly name: string
}

/** A message as a request. */
export interface EventRequest extends OutgoingRequest {
  /** The ordering key. */
  readonly key: string | undefined
  /** The headers of W3C Trace Context. */
  readonly trace: Readonly<Record<string, string>>
}

const ok: PublishResult = { ok: true }
const gatewayTimeout = 504

/** Sends one request and waits for the status of the answer. Never rejects. */
export async function sendRequest(request: OutgoingRequest, settings: RequestSettings, signal: AbortSignal): Promise<PublishResult> {
  const { timeout, statuses, runtime } = settings
  const { shown } = request.endpoint
  if (signal.aborted) return aborted(shown, signal.reason)
  using limit = linkedController(signal)
  const timer = runtime.setTimeout(() => limit.abort(new Error(`No answer within ${timeout} ms`)), timeout)
  const answering = ask(request, settings, limit.signal)
  try {
    const response = await abortable(answering, limit.signal)
    const { status } = response
    const retryAfter = parseRetryAfter(response.headers.get('retry-after'), runtime.now())
    await drain(response, limit.signal)
    const verdict = verdictOf(status, statuses)
    return verdict === 'confirmed' ? ok : refused({ shown, status, verdict, retryAfter })
  } catch (error) {
    answering.then(discard).catch(() => {})
    if (signal.aborted) return aborted(shown, signal.reason)
    if (!limit.signal.aborted) return unreachable(shown, error)
    return timedOut(shown, timeout, verdictOf(gatewayTimeout, statuses))
  } finally {
    timer.cancel()
  }
}

async function ask({ endpoint, headers, body, name }: OutgoingRequest, settings: RequestSettings, signal: AbortSignal): Promise<Response> {
  const { fetch, keys, runtime } = settings
  const signed: Record<string, string> = {}
  if (keys.length > 0) {
    const timestamp = String(Math.floor(runtime.now() / 1000))
    signed[idHeader] = name
    signed[timestampHeader] = timestamp
    signed[signatureHeader] = sign(keys, name, timestamp, body)
  }
  return await fetch(endpoint.url, { method: 'POST', headers: { ...headers, ...signed }, body, redirect: 'manual', signal })
}

// Reading a small body to its end gives the connection back to its pool; cancelling it closes the connection.
const worthReading = 64 * 1024

/** Only the status matters; the body is read so that nothing stays open. Never rejects. */
async function drain(response: Response, signal: AbortSignal): Promise<void> {
  const reader = response.body?.getReader()
  if (reader === undefined) return
  try {
    let size = 0
    while (size <= worthReading) {
      const { done, value } = await abortable(reader.read(), signal)
      if (done) return
      size += value.byteLength
    }
  } catch {
    // A failure while the body is read does not matter: there was an answer.
  }
  reader.cancel().catch(() => {})
}

/** For an answer that came too late. */
async function discard(response: Response): Promise<void> {
  await response.body?.cancel()
}

/** Where a request goes. */
export interface Endpoint {
  /** Without user and password. */
  readonly url: string
  /** For error messages: without the password and the query, which may contain tokens. */
  readonly shown: string
  /** Without brackets, if it is an IPv6 address. */
  readonly host: string
  readonly port: number
  /** The header for the user and password of the URL, if it has them. */
  readonly authorization: string | undefined
}

/** Throws, without showing the value, if it is not an HTTP URL. */
export function endpointOf(option: string, value: string | URL): Endpoint {
  const url = typeof value === 'string' || value instanceof URL ? parse(String(value)) : undefined
  if (url === undefined || (url.protocol !== 'https:' && url.protocol !== 'http:')) {
    throw new InvalidOptionError(option, 'must be an absolute URL that begins with https:// or http://.')
  }
  const { username, password } = url
  url.username = ''
  url.password = ''
  url.hash = ''
  const credentials = username === '' && password === '' ? undefined : `${decode(username)}:${decode(password)}`
  return {
    url: url.href,
    shown: `${url.origin}${url.pathname}${url.search === '' ? '' : '?…'}`,
    host: url.hostname.replace(/^\[(.*)\]$/, '$1'),
    port: Number(url.port) || (url.protocol === 'https:' ? 443 : 80),
    authorization: credentials === undefined ? undefined : `Basic ${Buffer.from(credentials).toString('base64')}`,
  }
}

function parse(value: string): URL | undefined {
  try {
    return new URL(value)
  } catch {
    return undefined
  }
}

/** `URL` percent-encodes some characters of a password. */
function decode(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}
