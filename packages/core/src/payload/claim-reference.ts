import { AckordError } from '../errors.ts'
import { describeMessage, invalidMessageError } from '../message/marshal.ts'
import type { RawMessage } from '../message/message.ts'
import { isObjectKey } from './object-store.ts'

/** The reference that a message carries instead of its data, as JSON. */
export interface ClaimReference {
  readonly key: string
  /** Bytes. */
  readonly size: number
  /** In lower-case hexadecimal digits. */
  readonly sha256: string
  /** That of the data; `undefined` if the message had none. */
  readonly datacontenttype: string | undefined
}

/** Bytes. A key has at most 512, and a content type is short. */
const maxReference = 4096
const decoder = new TextDecoder('utf-8', { fatal: true })

/** Throws if readers would reject it. */
export function writeReference(message: RawMessage, reference: ClaimReference): Uint8Array {
  const { key, size, sha256, datacontenttype } = reference
  const written = new TextEncoder().encode(JSON.stringify({ key, size, sha256, datacontenttype }))
  if (written.byteLength > maxReference) throw invalidMessageError(message, 'has a content type that is too long for a reference')
  return written
}

/** Throws unless the data is a valid reference: it may come from anyone who can write to the broker. */
export function readReference(message: RawMessage): ClaimReference {
  const { data } = message
  const parsed: unknown = data.byteLength > maxReference ? undefined : parse(data)
  if (typeof parsed !== 'object' || parsed === null) throw invalidReference(message)
  const { key, size, sha256, datacontenttype } = parsed as Partial<Record<keyof ClaimReference, unknown>>
  const isValid =
    isObjectKey(key) &&
    typeof size === 'number' &&
    Number.isSafeInteger(size) &&
    size >= 0 &&
    typeof sha256 === 'string' &&
    /^[0-9a-f]{64}$/.test(sha256) &&
    (datacontenttype === undefined || typeof datacontenttype === 'string')
  if (!isValid) throw invalidReference(message)
  return { key, size, sha256, datacontenttype }
}

function parse(data: Uint8Array): unknown {
  try {
    return JSON.parse(decoder.decode(data))
  } catch {
    return undefined
  }
}

function invalidReference(message: RawMessage): AckordError {
  const text = `Cannot fetch the data of ${describeMessage(message)}: it is marked as a reference of claimCheck(), and carries no valid one.`
  return new AckordError('ACKORD_PAYLOAD_INVALID', text, { retryable: false })
}
