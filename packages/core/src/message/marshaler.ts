import { AckordError, describeValue } from '../errors.ts'
import { parseJson } from './json.ts'
import { isJsonType } from './structured-json.ts'

/** Converts data to bytes and back. Both methods throw on failure; the callers add which message it was. */
export interface Marshaler {
  /** The media type that `marshal` produces. */
  readonly contentType: string
  /** Whether `unmarshal` can read this media type. */
  accepts(contentType: string): boolean
  marshal(data: unknown): Uint8Array
  /** `contentType` is the message's own; many brokers carry none. */
  unmarshal(bytes: Uint8Array, contentType: string | undefined): unknown
}

const decoder = new TextDecoder('utf-8', { fatal: true })

/** An event without data is valid: `undefined` is written as no bytes, and read from none. */
export const jsonMarshaler: Marshaler = {
  contentType: 'application/json',
  accepts: isJsonType,
  marshal(data) {
    if (data === undefined) return new Uint8Array()
    // JSON.stringify is typed to always return a string; for functions and symbols it returns undefined.
    const json = JSON.stringify(data) as string | undefined
    if (json === undefined) throw noForm('JSON', data)
    return bytesOf(json)
  },
  unmarshal: (bytes) => (bytes.byteLength === 0 ? undefined : parseJson(decoder.decode(bytes))),
}

export const textMarshaler: Marshaler = {
  contentType: 'text/plain; charset=utf-8',
  accepts: (contentType) => contentType.toLowerCase().startsWith('text/'),
  marshal(data) {
    if (typeof data !== 'string') throw noForm('Plain text', data)
    return bytesOf(data)
  },
  unmarshal: (bytes) => decoder.decode(bytes),
}

/** Bytes unchanged, whatever the content type. */
export const bytesMarshaler: Marshaler = {
  contentType: 'application/octet-stream',
  accepts: () => true,
  marshal(data) {
    if (!(data instanceof Uint8Array)) throw noForm('application/octet-stream', data)
    return data
  },
  unmarshal: (bytes) => bytes,
}

/** Writes with the first; reads with the first that accepts the message's content type, and with the very first if there is none. */
export function firstAccepting(first: Marshaler, ...others: readonly Marshaler[]): Marshaler {
  const all = [first, ...others]
  return {
    contentType: first.contentType,
    accepts: (contentType) => all.some((marshaler) => marshaler.accepts(contentType)),
    marshal: (data) => first.marshal(data),
    unmarshal(bytes, contentType) {
      const reader = contentType === undefined ? first : all.find((marshaler) => marshaler.accepts(contentType))
      return (reader ?? first).unmarshal(bytes, contentType)
    },
  }
}

/** Three times as fast as a TextEncoder for typical event sizes. A copy, because Buffer shares its memory. */
function bytesOf(text: string): Uint8Array {
  return new Uint8Array(Buffer.from(text))
}

function noForm(format: string, data: unknown): AckordError {
  return new AckordError('ACKORD_MARSHAL_FAILED', `${format} cannot represent ${describeValue(data)}.`)
}
