import { AckordError, type Runtime } from '@ackord/core'
import { abortable } from '@ackord/core/internal'
import { answer } from './answers.ts'

export interface BodyLimits {
  readonly maxBodySize: number
  readonly bodyTimeout: number
  readonly runtime: Runtime
}

/**
 * The bytes of the body, or the answer to one that is too large, too slow, or broken off. Counts what comes, whatever `content-length` says. The rest of
 * such a body is left to the server: cancelling it would close the connection before the answer is there.
 */
export async function readBody(request: Request, limits: BodyLimits): Promise<Uint8Array | Response> {
  const { maxBodySize, bodyTimeout, runtime } = limits
  if (Number(request.headers.get('content-length') ?? 0) > maxBodySize) return tooLarge(maxBodySize)
  if (request.bodyUsed) throw new AckordError('ACKORD_INVALID_OPTION', bodyGone)
  const reader = request.body?.getReader()
  if (reader === undefined) return new Uint8Array()
  const limit = new AbortController()
  const timer = runtime.setTimeout(() => limit.abort(), bodyTimeout)
  const chunks: Uint8Array[] = []
  let size = 0
  try {
    for (;;) {
      const { done, value } = await abortable(reader.read(), limit.signal)
      if (done) return Buffer.concat(chunks, size)
      size += value.byteLength
      if (size > maxBodySize) return tooLarge(maxBodySize)
      chunks.push(value)
    }
  } catch {
    if (limit.signal.aborted) return answer(408, `The body took longer than ${bodyTimeout} ms.`, { connection: 'close' })
    return answer(400, 'The body was broken off.')
  } finally {
    timer.cancel()
  }
}

const bodyGone =
  'The body of a request was read before the HTTP source got it. Mount its handler before anything that parses bodies, or without it.'

function tooLarge(maxBodySize: number): Response {
  return answer(413, `The body is larger than ${maxBodySize} bytes.`)
}
