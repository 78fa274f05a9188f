import type { PublishResult, Runtime } from '@ackord/core'
import { abortable, linkedController } from '@ackord/core/internal'
import type { Endpoint } from './endpoint.ts'
import { aborted, refused, tooSlow, unreachable } from './publish-failures.ts'
import { parseRetryAfter } from './retry-after.ts'
import { idHeader, type SigningKey, sign, signatureHeader, timestampHeader } from './signature.ts'
import { type StatusVerdicts, verdictOf } from './status-verdict.ts'

/** What is used of `fetch`. */
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
  /** What a signed request is called: the same when it is sent again. */
  readonly name: string
}

const ok: PublishResult = { ok: true }
const gatewayTimeout = 504

/** Sends one request and waits for the status of the answer. Never rejects. */
export async function sendRequest(request: OutgoingRequest, settings: RequestSettings, signal: AbortSignal): Promise<PublishResult> {
  const { timeout, statuses, runtime } = settings
  const { shown } = request.endpoint
  if (signal.aborted) return aborted(shown, signal.reason)
  using limit = linkedController(signal)
  const timer = runtime.setTimeout(() => limit.abort(tooSlow(shown, timeout)), timeout)
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
    // No answer in time is what a proxy would say with this status.
    const verdict = verdictOf(gatewayTimeout, statuses)
    const failure = { ok: false, error: limit.signal.reason } as const
    return verdict === 'retry' ? failure : verdict === 'park' ? { ...failure, permanent: true } : { ...failure, scope: 'destination' }
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

/** The status has told everything; the body is only read so that nothing is left open. Never rejects. */
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
    // Whatever happens to the body, the answer was there.
  }
  reader.cancel().catch(() => {})
}

/** An answer that came too late. */
async function discard(response: Response): Promise<void> {
  await response.body?.cancel()
}
