import type { Runtime } from '@ackord/core'
import { withTimeLimit } from '@ackord/core/internal'
import { ApiFailure, invalid } from './api-failure.ts'

// Bytes and milliseconds.
const maxBodySize = 6 * 1024 * 1024
const bodyTimeout = 30_000

/** The value of a JSON body. Counts the bytes that arrive, not `content-length`. */
export async function readJson(request: Request, runtime: Runtime): Promise<unknown> {
  if (Number(request.headers.get('content-length') ?? 0) > maxBodySize) throw tooLarge()
  const bytes = await withTimeLimit(runtime, bodyTimeout, tooSlow, () => readBytes(request))
  try {
    return JSON.parse(strictUtf8.decode(bytes))
  } catch {
    throw invalid('The body is not valid JSON.')
  }
}

async function readBytes(request: Request): Promise<Uint8Array> {
  const reader = request.body?.getReader()
  const pieces: Uint8Array[] = []
  for (let size = 0; reader !== undefined; ) {
    const { done, value } = await reader.read().catch(() => {
      throw invalid('The body is incomplete.')
    })
    if (done) break
    size += value.byteLength
    if (size > maxBodySize) throw tooLarge()
    pieces.push(value)
  }
  return Buffer.concat(pieces)
}

function tooLarge(): ApiFailure {
  return new ApiFailure(413, 'too_large', `The body is larger than ${maxBodySize} bytes.`)
}

function tooSlow(): ApiFailure {
  return invalid(`The body took longer than ${bodyTimeout / 1000} seconds.`)
}

const strictUtf8 = new TextDecoder('utf-8', { fatal: true })
