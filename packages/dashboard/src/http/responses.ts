import type { ApiError } from '../api/types.ts'
import type { ApiFailure } from './api-failure.ts'

const securityHeaders: Readonly<Record<string, string>> = {
  'content-security-policy':
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  'cross-origin-resource-policy': 'same-origin',
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
}

/** Every response is made here, so that none lacks the security headers. A response is not stored unless its headers allow it. */
export function respond(
  status: number,
  body: string | Uint8Array<ArrayBuffer> | ReadableStream<Uint8Array> | null,
  headers: Readonly<Record<string, string>>,
): Response {
  const length = typeof body === 'string' ? Buffer.byteLength(body) : body instanceof Uint8Array ? body.byteLength : undefined
  const sized = length === undefined ? headers : { ...headers, 'content-length': String(length) }
  return new Response(body, { status, headers: { 'cache-control': 'no-store', ...sized, ...securityHeaders } })
}

export function json(value: unknown, status: number = 200, headers: Readonly<Record<string, string>> = {}): Response {
  return respond(status, JSON.stringify(value), { ...headers, 'content-type': 'application/json; charset=utf-8' })
}

export function failureResponse({ status, code, message, headers }: ApiFailure): Response {
  const body: ApiError = { error: { code, message } }
  return json(body, status, headers)
}

/** A file for the disk of the user: no browser shows or runs its content. */
export function download(content: Uint8Array, name: string): Response {
  return respond(200, new Uint8Array(content), {
    'content-type': 'application/octet-stream',
    'content-disposition': `attachment; filename="${name}"`,
  })
}
