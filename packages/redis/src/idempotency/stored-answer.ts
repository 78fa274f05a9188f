import type { StoredAnswer } from '@ackord/outbox'
import { toBuffer } from '../client/argument.ts'

const lineFeed = '\n'

/** The status and the headers as a line of JSON, and the bytes of the body as they are. */
export function encodeAnswer({ status, headers, body }: StoredAnswer): Buffer {
  // JSON has no line feeds of its own.
  return Buffer.concat([Buffer.from(JSON.stringify([status, headers]) + lineFeed), toBuffer(body)])
}

export function decodeAnswer(bytes: Buffer): StoredAnswer {
  const end = bytes.indexOf(lineFeed)
  // As `encodeAnswer` wrote it.
  const [status, headers] = JSON.parse(bytes.toString('utf8', 0, end)) as [StoredAnswer['status'], StoredAnswer['headers']]
  // A copy: the client's buffer may hold other replies, too.
  return { status, headers, body: Uint8Array.from(bytes.subarray(end + 1)) }
}
