import { createHash } from 'node:crypto'
import { AckordError } from '@ackord/core'
import { describeValue } from '@ackord/core/internal'

/** The parts of a request that the default fingerprint covers. */
export interface RequestContent {
  readonly method: string
  /** The path with the query, or a whole URL. */
  readonly url: string
  /** Bytes, a text, or what a parser has made of the body. */
  readonly body: unknown
}

/** Two requests that ask for the same thing have the same fingerprint. */
export function requestFingerprint({ method, url, body }: RequestContent): string {
  // No method and no path has a line break.
  return sha256(`${method} ${pathOf(url)}\n`, bytesOf(body))
}

export function sha256(...parts: readonly (string | Uint8Array)[]): string {
  const hash = createHash('sha256')
  for (const part of parts) hash.update(part)
  return hash.digest('base64url')
}

/** Without the host: behind a proxy, the same request may arrive under several names. */
function pathOf(url: string): string {
  if (url.startsWith('/')) return url
  const { pathname, search } = new URL(url)
  return `${pathname}${search}`
}

function bytesOf(body: unknown): string | Uint8Array {
  if (typeof body === 'string' || body instanceof Uint8Array) return body
  if (body instanceof ArrayBuffer) return new Uint8Array(body)
  return JSON.stringify(body, checkJson)
}

/** JSON turns forms, maps and streams into `{}`: all of them would be the same request. */
function checkJson(_name: string, value: unknown): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value
  const prototype: unknown = Object.getPrototypeOf(value)
  // The prototype of plain objects is the one that has none itself, also in another realm.
  if (prototype === null || Object.getPrototypeOf(prototype) === null) return value
  const text = `The body of a request has ${describeValue(value)}, of which no fingerprint can be made. Set the option \`fingerprint\`.`
  throw new AckordError('ACKORD_WRONG_DATA', text)
}
