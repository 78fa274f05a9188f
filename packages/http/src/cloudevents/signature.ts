import { createHmac, timingSafeEqual } from 'node:crypto'
import { InvalidOptionError } from '@ackord/core'

/** The bytes of a shared secret. Its text is not kept, so that no error or log entry can show it. */
export type SigningKey = Uint8Array

/** The headers of Standard Webhooks. */
export const idHeader = 'webhook-id'
export const timestampHeader = 'webhook-timestamp'
export const signatureHeader = 'webhook-signature'

/** Reads secrets as Standard Webhooks writes them: base64, with or without `whsec_` before it. */
export function signingKeys(option: string, secrets: string | readonly string[]): readonly SigningKey[] {
  const list = typeof secrets === 'string' ? [secrets] : secrets
  if (!Array.isArray(list) || list.length === 0) throw new InvalidOptionError(option, 'must be a secret, or a non-empty list of secrets.')
  return list.map((secret: unknown) => {
    const text = typeof secret === 'string' ? secret.replace(/^whsec_/, '') : ''
    const key = Buffer.from(text, 'base64')
    // Buffer skips characters that are not base64; an incomplete secret would sign nevertheless.
    const isBase64 = /^[A-Za-z0-9+/]+={0,2}$/.test(text) && key.toString('base64').replace(/=+$/, '') === text.replace(/=+$/, '')
    if (!isBase64) throw new InvalidOptionError(option, "must contain secrets in base64, such as 'whsec_…'; one of them is not.")
    return new Uint8Array(key)
  })
}

/** The signature header: one signature per key, so that it is enough for a receiver to know one of the keys. */
export function sign(keys: readonly SigningKey[], id: string, timestamp: string, body: Uint8Array): string {
  return keys.map((key) => `v1,${hmac(key, id, timestamp, body).toString('base64')}`).join(' ')
}

export interface SignedRequest {
  readonly headers: Headers
  readonly body: Uint8Array
}

/** Why the signature is not valid; `undefined` if it is. Every key is compared with every signature, in constant time. */
export function signatureProblem(
  keys: readonly SigningKey[],
  { headers, body }: SignedRequest,
  clock: { readonly now: number; readonly tolerance: number },
): string | undefined {
  const [id, timestamp, signatures] = [headers.get(idHeader), headers.get(timestampHeader), headers.get(signatureHeader)]
  if (id === null || timestamp === null || signatures === null)
    return `The headers ${idHeader}, ${timestampHeader} and ${signatureHeader} are required.`
  if (!/^\d{1,12}$/.test(timestamp)) return `The header ${timestampHeader} is not a number of seconds.`
  if (Math.abs(clock.now - Number(timestamp) * 1000) > clock.tolerance)
    return `The header ${timestampHeader} differs too much from the time of the receiver.`
  const expected = keys.map((key) => hmac(key, id, timestamp, body))
  let matches = false
  for (const signature of signatures.split(' ')) {
    const [version, text] = signature.split(',', 2)
    const given = version === 'v1' && text !== undefined ? Buffer.from(text, 'base64') : Buffer.alloc(0)
    for (const digest of expected) matches = (given.length === digest.length && timingSafeEqual(given, digest)) || matches
  }
  return matches ? undefined : 'No signature matches.'
}

function hmac(key: SigningKey, id: string, timestamp: string, body: Uint8Array): Buffer {
  return createHmac('sha256', key).update(`${id}.${timestamp}.`).update(body).digest()
}
