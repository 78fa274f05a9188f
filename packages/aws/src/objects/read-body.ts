import { addAbortSignal, Readable } from 'node:stream'
import { ObjectTooLargeError } from '@ackord/core/payload'

export interface BodyLimits {
  readonly key: string
  /** Bytes that S3 has announced. */
  readonly announced: number | undefined
  /** Bytes. */
  readonly maxBytes: number | undefined
  readonly signal: AbortSignal
}

/** Reads the body of an answer. The connection is closed if it is too large, or the signal is aborted: an unread body would occupy one of the connections of the SDK for ever. */
export async function readBody(body: unknown, limits: BodyLimits): Promise<Uint8Array> {
  const { key, announced, maxBytes = Number.POSITIVE_INFINITY, signal } = limits
  // A stream of Node, or that of fetch() if the client has a fetch handler.
  const stream = body instanceof Readable ? body : Readable.from(body as AsyncIterable<Uint8Array>)
  addAbortSignal(signal, stream)
  const chunks: Uint8Array[] = []
  let size = 0
  const checkSize = (bytes: number) => {
    if (bytes > maxBytes) throw new ObjectTooLargeError(key, bytes, maxBytes)
  }
  try {
    checkSize(announced ?? 0)
    for await (const chunk of stream as AsyncIterable<Uint8Array>) {
      size += chunk.byteLength
      checkSize(size)
      chunks.push(chunk)
    }
  } finally {
    stream.destroy()
  }
  const bytes = Buffer.concat(chunks, size)
  return new Uint8Array(bytes.buffer, bytes.byteOffset, size)
}
